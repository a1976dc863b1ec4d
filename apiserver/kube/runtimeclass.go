package kube

import (
	"slices"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func runtimeClasses() apiserver.Resource {
	type class = nodev1.RuntimeClass
	return apiserver.Resource{
		Group:   nodev1.GroupName,
		Version: "v1",
		Kind:    "RuntimeClass",
		Plural:  "runtimeclasses",
		New:     func() runtime.Object { return &class{} },
		NewList: func() runtime.Object { return &nodev1.RuntimeClassList{} },
		Strategy: strategy[*class]{
			validate: validateRuntimeClass,
			validateUpdate: func(c, old *class) field.ErrorList {
				var ps problems
				ps.immutable(field.NewPath("handler"), c.Handler, old.Handler)
				return ps.list
			},
		}.erase(),
		Columns: []apiserver.Column{
			text("Handler", nodev1.RuntimeClass{}.SwaggerDoc()["handler"], func(c *class) string { return c.Handler }),
			age[*class](),
		},
	}
}

func validateRuntimeClass(c *nodev1.RuntimeClass) field.ErrorList {
	var ps problems
	if p := field.NewPath("handler"); ps.required(p, c.Handler) {
		ps.dnsLabel(p, c.Handler)
	}
	if c.Overhead != nil {
		checkRequirements(&ps, field.NewPath("overhead"), &corev1.ResourceRequirements{Limits: c.Overhead.PodFixed}, containerResource)
	}
	if s := c.Scheduling; s != nil {
		p := field.NewPath("scheduling")
		ps.labels(p.Child("nodeSelector"), s.NodeSelector)
		checkTolerations(&ps, p.Child("tolerations"), s.Tolerations)
		for i, t := range s.Tolerations {
			twice := slices.ContainsFunc(s.Tolerations[:i], func(u corev1.Toleration) bool {
				return u.Key == t.Key && u.Operator == t.Operator && u.Value == t.Value && u.Effect == t.Effect
			})
			ps.unique(!twice, p.Child("tolerations").Index(i), t)
		}
	}
	return ps.list
}
