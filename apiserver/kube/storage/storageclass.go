package storage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a class's parameters.
const (
	maxParameters     = 512
	maxParameterBytes = 256 << 10
)

// StorageClasses returns the resource of the kind StorageClass.
func StorageClasses() apiserver.Resource {
	type class = storagev1.StorageClass
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return apiserver.For(kinds.StorageClasses, apiserver.Resource{
		Strategy: define.Strategy[*class]{
			Default: func(c *class) {
				optional.SetIfNil(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
				optional.SetIfNil(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
			},
			Validate: validateStorageClass,
			ValidateUpdate: func(c, old *class) field.ErrorList {
				ps := check.Problems{List: validateStorageClass(c)}
				ps.Immutable(field.NewPath("parameters"), c.Parameters, old.Parameters)
				ps.Immutable(field.NewPath("provisioner"), c.Provisioner, old.Provisioner)
				ps.Immutable(field.NewPath("reclaimPolicy"), c.ReclaimPolicy, old.ReclaimPolicy)
				ps.Immutable(field.NewPath("volumeBindingMode"), c.VolumeBindingMode, old.VolumeBindingMode)
				return ps.List
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.NameMarkedDefault[*class]("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"),
			column.Text("Provisioner", doc["provisioner"], func(c *class) string { return c.Provisioner }),
			column.Text("ReclaimPolicy", doc["reclaimPolicy"], func(c *class) string { return string(optional.Deref(c.ReclaimPolicy)) }),
			column.Text("VolumeBindingMode", doc["volumeBindingMode"], func(c *class) string { return string(optional.Deref(c.VolumeBindingMode)) }),
			column.Boolean("AllowVolumeExpansion", doc["allowVolumeExpansion"], func(c *class) bool { return optional.Deref(c.AllowVolumeExpansion) }),
			column.Age[*class](),
		},
	})
}

func validateStorageClass(c *storagev1.StorageClass) field.ErrorList {
	var ps check.Problems
	if p := field.NewPath("provisioner"); ps.Required(p, c.Provisioner) {
		name := strings.ToLower(c.Provisioner)
		ps.Each(p, name, validation.IsQualifiedName(name))
	}
	checkParameters(&ps, field.NewPath("parameters"), c.Parameters)
	if policy := optional.Deref(c.ReclaimPolicy); policy != "" {
		check.OneOf(&ps, field.NewPath("reclaimPolicy"), policy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	mode := field.NewPath("volumeBindingMode")
	if c.VolumeBindingMode == nil {
		ps.Add(field.Required(mode, ""))
	} else {
		check.OneOf(&ps, mode, *c.VolumeBindingMode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	seen := check.Seen[string]{}
	for i, term := range c.AllowedTopologies {
		at := field.NewPath("allowedTopologies").Index(i)
		checkTopologyTerm(&ps, at, &term)
		// As in Kubernetes, a term without expressions is never the first one.
		again := seen.Again(topologyOf(&term)) || len(term.MatchLabelExpressions) == 0
		ps.Unique(!again, at.Child("matchLabelExpressions"), "")
	}
	return ps.List
}

func checkParameters(ps *check.Problems, p *field.Path, parameters map[string]string) {
	if len(parameters) > maxParameters {
		ps.Add(field.TooLong(p, "", maxParameters))
		return
	}
	size := 0
	for key, value := range parameters {
		ps.Valid(key != "", p, key, "field can not be empty.")
		size += len(key) + len(value)
	}
	ps.AtMostBytes(p, size, maxParameterBytes)
}

func checkTopologyTerm(ps *check.Problems, p *field.Path, t *corev1.TopologySelectorTerm) {
	seen := map[string]bool{}
	for i, r := range t.MatchLabelExpressions {
		at := p.Child("matchLabelExpressions").Index(i)
		values := at.Child("values")
		ps.Present(len(r.Values) > 0, values, "")
		repeated := check.Seen[string]{}
		for j, v := range r.Values {
			ps.Unique(!repeated.Again(v), values.Index(j), v)
		}
		ps.Each(at.Child("key"), r.Key, validation.IsQualifiedName(r.Key))
		ps.Unique(!seen[r.Key], at.Child("key"), r.Key)
		seen[r.Key] = true
	}
}

// topologyOf returns a text that is the same for terms that select the same. The order does not matter, and
// of expressions with one key the last counts.
func topologyOf(t *corev1.TopologySelectorTerm) string {
	values := map[string][]string{}
	for _, r := range t.MatchLabelExpressions {
		values[r.Key] = slices.Compact(slices.Sorted(slices.Values(r.Values)))
	}
	return fmt.Sprintf("%q", values) // maps are printed in the order of their keys
}
