package kube

import (
	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func configMaps() apiserver.Resource {
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "ConfigMap",
		Plural:     "configmaps",
		ShortNames: []string{"cm"},
		Namespaced: true,
		New:        func() runtime.Object { return &corev1.ConfigMap{} },
		NewList:    func() runtime.Object { return &corev1.ConfigMapList{} },
		Strategy: strategy[*corev1.ConfigMap]{
			validate:       validateConfigMap,
			validateUpdate: validateConfigMapUpdate,
		}.erase(),
		Columns: []apiserver.Column{
			countColumn("Data", corev1.ConfigMap{}.SwaggerDoc()["data"],
				func(cm *corev1.ConfigMap) int { return len(cm.Data) + len(cm.BinaryData) }),
			age[*corev1.ConfigMap](),
		},
	}
}

func validateConfigMap(cm *corev1.ConfigMap) field.ErrorList {
	var ps problems
	data, binary := field.NewPath("data"), field.NewPath("binaryData")
	size := 0
	for _, key := range sortedKeys(cm.Data) {
		ps.each(data.Key(key), key, validation.IsConfigMapKey(key))
		_, twice := cm.BinaryData[key]
		ps.valid(!twice, data.Key(key), key, "duplicate of key present in binaryData")
		size += len(cm.Data[key])
	}
	for _, key := range sortedKeys(cm.BinaryData) {
		ps.each(binary.Key(key), key, validation.IsConfigMapKey(key))
		size += len(cm.BinaryData[key])
	}
	// The empty path means the whole object.
	ps.atMostBytes(field.NewPath(""), size, corev1.MaxSecretSize)
	return ps.list
}

func validateConfigMapUpdate(cm, old *corev1.ConfigMap) field.ErrorList {
	var ps problems
	if deref(old.Immutable) {
		frozen(&ps, deref(cm.Immutable), []frozenField{
			{"data", differ(cm.Data, old.Data)},
			{"binaryData", differ(cm.BinaryData, old.BinaryData)},
		})
	}
	ps.all(validateConfigMap(cm))
	return ps.list
}

// frozenField is one that may not change any more, and whether it did.
type frozenField struct {
	path    string
	changed bool
}

// frozen checks an object that was made immutable, for good.
func frozen(ps *problems, still bool, fields []frozenField) {
	const message = "field is immutable when `immutable` is set"
	ps.allowed(still, field.NewPath("immutable"), message)
	for _, f := range fields {
		ps.allowed(!f.changed, field.NewPath(f.path), message)
	}
}
