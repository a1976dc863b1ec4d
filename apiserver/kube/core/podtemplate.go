package core

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodTemplates returns the resource of the kind PodTemplate.
func PodTemplates() apiserver.Resource {
	columns := column.PodTemplate("The labels of the pods.",
		func(t *corev1.PodTemplate) *corev1.PodTemplateSpec { return &t.Template },
		func(t *corev1.PodTemplate) string { return labels.FormatLabels(t.Template.Labels) })
	columns[2].Name = "Pod Labels"
	for i := range columns {
		columns[i].Priority = 0
	}
	return apiserver.For(kinds.PodTemplates, apiserver.Resource{
		Strategy: define.Strategy[*corev1.PodTemplate]{
			Counted:        func(t *corev1.PodTemplate) any { return &t.Template },
			Default:        func(t *corev1.PodTemplate) { podspec.DefaultTemplate(&t.Template) },
			Validate:       validatePodTemplate,
			ValidateUpdate: func(t, _ *corev1.PodTemplate) field.ErrorList { return validatePodTemplate(t) },
		}.Erase(),
		Columns: columns,
	})
}

func validatePodTemplate(t *corev1.PodTemplate) field.ErrorList {
	var ps check.Problems
	podspec.CheckTemplate(&ps, field.NewPath("template"), &t.Template)
	return ps.List
}
