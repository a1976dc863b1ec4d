package apps

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/kinds"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ControllerRevisions returns the resource of the kind ControllerRevision.
func ControllerRevisions() apiserver.Resource {
	doc := appsv1.ControllerRevision{}.SwaggerDoc()
	return apiserver.For(kinds.ControllerRevisions, apiserver.Resource{
		Strategy: define.Strategy[*appsv1.ControllerRevision]{
			Validate: validateControllerRevision,
			ValidateUpdate: func(r, old *appsv1.ControllerRevision) field.ErrorList {
				var ps check.Problems
				ps.NotNegative(field.NewPath("revision"), r.Revision)
				ps.Immutable(field.NewPath("data"), r.Data, old.Data)
				return ps.List
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Controller", "Controller of the object", ownerText),
			column.Number("Revision", doc["revision"], func(r *appsv1.ControllerRevision) int64 { return r.Revision }),
			column.Age[*appsv1.ControllerRevision](),
		},
	})
}

// ownerText returns the controller in the form that kubectl takes: "daemonset.apps/web".
func ownerText(r *appsv1.ControllerRevision) string {
	owner := metav1.GetControllerOf(r)
	if owner == nil {
		return column.None
	}
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	return strings.ToLower(kind.String()) + "/" + owner.Name
}

func validateControllerRevision(r *appsv1.ControllerRevision) field.ErrorList {
	var ps check.Problems
	ps.NotNegative(field.NewPath("revision"), r.Revision)
	at := field.NewPath("data")
	var data any
	if r.Data.Raw == nil {
		ps.Add(field.Required(at, "data is mandatory"))
		return ps.List
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		ps.Add(field.Invalid(at, "<value omitted>", fmt.Sprintf("error parsing data: %v", err)))
		return ps.List
	}
	_, object := data.(map[string]any)
	ps.Present(data != nil, at, "data is mandatory")
	ps.Present(data == nil || object, at, "data must be a valid JSON object")
	return ps.List
}
