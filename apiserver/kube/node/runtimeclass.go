package node

import (
	"slices"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RuntimeClasses returns the resource of the kind RuntimeClass.
func RuntimeClasses() apiserver.Resource {
	type class = nodev1.RuntimeClass
	return apiserver.For(kinds.RuntimeClasses, apiserver.Resource{
		Conditional: true, CreateOnUpdate: true,
		Strategy: define.Strategy[*class]{
			Validate: validateRuntimeClass,
			ValidateUpdate: func(c, old *class) field.ErrorList {
				ps := check.Problems{List: validateRuntimeClass(c)}
				ps.Immutable(field.NewPath("handler"), c.Handler, old.Handler)
				return ps.List
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Handler", nodev1.RuntimeClass{}.SwaggerDoc()["handler"], func(c *class) string { return c.Handler }),
			column.Age[*class](),
		},
	})
}

func validateRuntimeClass(c *nodev1.RuntimeClass) field.ErrorList {
	var ps check.Problems
	if p := field.NewPath("handler"); ps.Required(p, c.Handler) {
		ps.DNSLabel(p, c.Handler)
	}
	if c.Overhead != nil {
		podspec.CheckRequirements(&ps, field.NewPath("overhead"), &corev1.ResourceRequirements{Limits: c.Overhead.PodFixed}, podspec.ContainerResource)
	}
	if s := c.Scheduling; s != nil {
		p := field.NewPath("scheduling")
		ps.Labels(p.Child("nodeSelector"), s.NodeSelector)
		podspec.CheckTolerations(&ps, p.Child("tolerations"), s.Tolerations)
		for i, t := range s.Tolerations {
			twice := slices.ContainsFunc(s.Tolerations[:i], func(u corev1.Toleration) bool {
				return u.Key == t.Key && u.Operator == t.Operator && u.Value == t.Value && u.Effect == t.Effect
			})
			ps.Unique(!twice, p.Child("tolerations").Index(i), t)
		}
	}
	return ps.List
}
