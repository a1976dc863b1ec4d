package kube

import (
	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func podTemplates() apiserver.Resource {
	columns := templateColumns("The labels of the pods.",
		func(t *corev1.PodTemplate) *corev1.PodTemplateSpec { return &t.Template },
		func(t *corev1.PodTemplate) string { return labels.FormatLabels(t.Template.Labels) })
	columns[2].Name = "Pod Labels"
	for i := range columns {
		columns[i].Priority = 0
	}
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "PodTemplate",
		Plural:     "podtemplates",
		Namespaced: true,
		New:        func() runtime.Object { return &corev1.PodTemplate{} },
		NewList:    func() runtime.Object { return &corev1.PodTemplateList{} },
		Strategy: strategy[*corev1.PodTemplate]{
			complete: func(t *corev1.PodTemplate) { defaultPodSpec(&t.Template.Spec) },
			create:   func(t *corev1.PodTemplate) { t.Generation = 1 },
			update: func(t, old *corev1.PodTemplate) {
				t.Generation = nextGeneration(old.Generation, differ(&t.Template, &old.Template))
			},
			validate:       validatePodTemplate,
			validateUpdate: func(t, _ *corev1.PodTemplate) field.ErrorList { return validatePodTemplate(t) },
		}.erase(),
		Columns: columns,
	}
}

func validatePodTemplate(t *corev1.PodTemplate) field.ErrorList {
	var ps problems
	checkTemplate(&ps, field.NewPath("template"), &t.Template)
	return ps.list
}
