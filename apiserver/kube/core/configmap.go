package core

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConfigMaps returns the resource of the kind ConfigMap.
func ConfigMaps() apiserver.Resource {
	return apiserver.For(kinds.ConfigMaps, apiserver.Resource{
		Strategy: define.Strategy[*corev1.ConfigMap]{
			Validate:       validateConfigMap,
			ValidateUpdate: validateConfigMapUpdate,
		}.Erase(),
		Columns: []apiserver.Column{
			column.Count("Data", corev1.ConfigMap{}.SwaggerDoc()["data"],
				func(cm *corev1.ConfigMap) int { return len(cm.Data) + len(cm.BinaryData) }),
			column.Age[*corev1.ConfigMap](),
		},
	})
}

func validateConfigMap(cm *corev1.ConfigMap) field.ErrorList {
	var ps check.Problems
	data, binary := field.NewPath("data"), field.NewPath("binaryData")
	size := 0
	for _, key := range check.SortedKeys(cm.Data) {
		ps.Each(data.Key(key), key, validation.IsConfigMapKey(key))
		_, twice := cm.BinaryData[key]
		ps.Valid(!twice, data.Key(key), key, "duplicate of key present in binaryData")
		size += len(cm.Data[key])
	}
	for _, key := range check.SortedKeys(cm.BinaryData) {
		ps.Each(binary.Key(key), key, validation.IsConfigMapKey(key))
		size += len(cm.BinaryData[key])
	}
	// The empty path means the whole object.
	ps.AtMostBytes(field.NewPath(""), size, corev1.MaxSecretSize)
	return ps.List
}

func validateConfigMapUpdate(cm, old *corev1.ConfigMap) field.ErrorList {
	var ps check.Problems
	if optional.Deref(old.Immutable) {
		frozen(&ps, optional.Deref(cm.Immutable), []frozenField{
			{"data", define.Differ(cm.Data, old.Data)},
			{"binaryData", define.Differ(cm.BinaryData, old.BinaryData)},
		})
	}
	ps.All(validateConfigMap(cm))
	return ps.List
}

// A frozenField is a field of an immutable object, and whether it changed.
type frozenField struct {
	path    string
	changed bool
}

// frozen checks an object that was made immutable, for good.
func frozen(ps *check.Problems, still bool, fields []frozenField) {
	const message = "field is immutable when `immutable` is set"
	ps.Allowed(still, field.NewPath("immutable"), message)
	for _, f := range fields {
		ps.Allowed(!f.changed, field.NewPath(f.path), message)
	}
}
