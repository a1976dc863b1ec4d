package kube

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a class's parameters.
const (
	maxParameters     = 512
	maxParameterBytes = 256 << 10
)

func storageClasses() apiserver.Resource {
	type class = storagev1.StorageClass
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return apiserver.Resource{
		Group:      storagev1.GroupName,
		Version:    "v1",
		Kind:       "StorageClass",
		Plural:     "storageclasses",
		ShortNames: []string{"sc"},
		New:        func() runtime.Object { return &class{} },
		NewList:    func() runtime.Object { return &storagev1.StorageClassList{} },
		Strategy: strategy[*class]{
			complete: func(c *class) {
				setIfNil(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
				setIfNil(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
			},
			validate: validateStorageClass,
			validateUpdate: func(c, old *class) field.ErrorList {
				var ps problems
				ps.immutable(field.NewPath("parameters"), c.Parameters, old.Parameters)
				ps.immutable(field.NewPath("provisioner"), c.Provisioner, old.Provisioner)
				ps.immutable(field.NewPath("reclaimPolicy"), c.ReclaimPolicy, old.ReclaimPolicy)
				ps.immutable(field.NewPath("volumeBindingMode"), c.VolumeBindingMode, old.VolumeBindingMode)
				return ps.list
			},
		}.erase(),
		Columns: []apiserver.Column{
			markedName[*class]("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"),
			text("Provisioner", doc["provisioner"], func(c *class) string { return c.Provisioner }),
			text("ReclaimPolicy", doc["reclaimPolicy"], func(c *class) string { return string(deref(c.ReclaimPolicy)) }),
			text("VolumeBindingMode", doc["volumeBindingMode"], func(c *class) string { return string(deref(c.VolumeBindingMode)) }),
			boolean("AllowVolumeExpansion", doc["allowVolumeExpansion"], func(c *class) bool { return deref(c.AllowVolumeExpansion) }),
			age[*class](),
		},
	}
}

func validateStorageClass(c *storagev1.StorageClass) field.ErrorList {
	var ps problems
	if p := field.NewPath("provisioner"); ps.required(p, c.Provisioner) {
		name := strings.ToLower(c.Provisioner)
		ps.each(p, name, validation.IsQualifiedName(name))
	}
	checkParameters(&ps, field.NewPath("parameters"), c.Parameters)
	if policy := deref(c.ReclaimPolicy); policy != "" {
		oneOf(&ps, field.NewPath("reclaimPolicy"), policy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	mode := field.NewPath("volumeBindingMode")
	if c.VolumeBindingMode == nil {
		ps.add(field.Required(mode, ""))
	} else {
		oneOf(&ps, mode, *c.VolumeBindingMode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	for i, term := range c.AllowedTopologies {
		at := field.NewPath("allowedTopologies").Index(i)
		checkTopologyTerm(&ps, at, &term)
		ps.unique(!slices.ContainsFunc(c.AllowedTopologies[:i], func(t corev1.TopologySelectorTerm) bool { return sameTopology(&t, &term) }),
			at.Child("matchLabelExpressions"), "")
	}
	return ps.list
}

func checkParameters(ps *problems, p *field.Path, parameters map[string]string) {
	if len(parameters) > maxParameters {
		ps.add(field.TooLong(p, "", maxParameters))
		return
	}
	size := 0
	for key, value := range parameters {
		ps.valid(key != "", p, key, "field can not be empty.")
		size += len(key) + len(value)
	}
	ps.atMostBytes(p, size, maxParameterBytes)
}

func checkTopologyTerm(ps *problems, p *field.Path, t *corev1.TopologySelectorTerm) {
	seen := map[string]bool{}
	for i, r := range t.MatchLabelExpressions {
		at := p.Child("matchLabelExpressions").Index(i)
		values := at.Child("values")
		ps.present(len(r.Values) > 0, values, "")
		for j, v := range r.Values {
			ps.unique(!slices.Contains(r.Values[:j], v), values.Index(j), v)
		}
		ps.each(at.Child("key"), r.Key, validation.IsQualifiedName(r.Key))
		ps.unique(!seen[r.Key], at.Child("key"), r.Key)
		seen[r.Key] = true
	}
}

// sameTopology compares what two terms select. The order does not matter.
func sameTopology(a, b *corev1.TopologySelectorTerm) bool {
	sets := func(t *corev1.TopologySelectorTerm) map[string]map[string]bool {
		out := map[string]map[string]bool{}
		for _, r := range t.MatchLabelExpressions {
			out[r.Key] = map[string]bool{}
			for _, v := range r.Values {
				out[r.Key][v] = true
			}
		}
		return out
	}
	return !differ(sets(a), sets(b))
}
