package kube

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func controllerRevisions() apiserver.Resource {
	doc := appsv1.ControllerRevision{}.SwaggerDoc()
	return apiserver.Resource{
		Group:      appsv1.GroupName,
		Version:    "v1",
		Kind:       "ControllerRevision",
		Plural:     "controllerrevisions",
		Namespaced: true,
		New:        func() runtime.Object { return &appsv1.ControllerRevision{} },
		NewList:    func() runtime.Object { return &appsv1.ControllerRevisionList{} },
		Strategy: strategy[*appsv1.ControllerRevision]{
			validate: validateControllerRevision,
			validateUpdate: func(r, old *appsv1.ControllerRevision) field.ErrorList {
				var ps problems
				ps.notNegative(field.NewPath("revision"), r.Revision)
				ps.immutable(field.NewPath("data"), r.Data, old.Data)
				return ps.list
			},
		}.erase(),
		Columns: []apiserver.Column{
			text("Controller", "Controller of the object", ownerText),
			number("Revision", doc["revision"], func(r *appsv1.ControllerRevision) int64 { return r.Revision }),
			age[*appsv1.ControllerRevision](),
		},
	}
}

// ownerText names the controller as kubectl takes it: "daemonset.apps/web".
func ownerText(r *appsv1.ControllerRevision) string {
	owner := metav1.GetControllerOf(r)
	if owner == nil {
		return none
	}
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	return strings.ToLower(kind.String()) + "/" + owner.Name
}

func validateControllerRevision(r *appsv1.ControllerRevision) field.ErrorList {
	var ps problems
	ps.notNegative(field.NewPath("revision"), r.Revision)
	at := field.NewPath("data")
	var data any
	if r.Data.Raw == nil {
		ps.add(field.Required(at, "data is mandatory"))
		return ps.list
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		ps.add(field.Invalid(at, "<value omitted>", fmt.Sprintf("error parsing data: %v", err)))
		return ps.list
	}
	_, object := data.(map[string]any)
	ps.present(data != nil, at, "data is mandatory")
	ps.present(data == nil || object, at, "data must be a valid JSON object")
	return ps.list
}
