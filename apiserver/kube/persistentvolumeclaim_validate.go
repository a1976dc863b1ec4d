package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateClaim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	var ps problems
	checkClaim(&ps, field.NewPath("spec"), &c.Spec)
	return ps.list
}

func checkClaim(ps *problems, p *field.Path, spec *corev1.PersistentVolumeClaimSpec) {
	ps.present(len(spec.AccessModes) > 0, p.Child("accessModes"), "at least 1 access mode is required")
	if spec.Selector != nil {
		ps.selector(p.Child("selector"), spec.Selector)
	}
	checkAccessModes(ps, p.Child("accessModes"), spec.AccessModes)
	at := p.Child("resources").Key(string(corev1.ResourceStorage))
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; ok {
		ps.valid(size.Sign() > 0, at, size.String(), "must be greater than zero")
	} else {
		ps.add(field.Required(at, ""))
	}
	if deref(spec.StorageClassName) != "" {
		ps.subdomain(p.Child("storageClassName"), *spec.StorageClassName)
	}
	checkVolumeMode(ps, p.Child("volumeMode"), spec.VolumeMode)
	checkDataSources(ps, p, spec)
	if deref(spec.VolumeAttributesClassName) != "" {
		ps.subdomain(p.Child("volumeAttributesClassName"), *spec.VolumeAttributesClassName)
	}
}

func checkDataSources(ps *problems, p *field.Path, spec *corev1.PersistentVolumeClaimSpec) {
	from, ref := spec.DataSource, spec.DataSourceRef
	if from != nil {
		checkDataSource(ps, p.Child("dataSource"), from.APIGroup, from.Kind, from.Name)
	}
	if ref == nil {
		return
	}
	checkDataSource(ps, p.Child("dataSourceRef"), ref.APIGroup, ref.Kind, ref.Name)
	switch {
	case deref(ref.Namespace) != "":
		ps.dnsLabel(p.Child("dataSourceRef", "namespace"), *ref.Namespace)
		ps.valid(from == nil, p, p.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified")
	case from != nil:
		ps.valid(!differ(from.APIGroup, ref.APIGroup) && from.Kind == ref.Kind && from.Name == ref.Name,
			p, p.Child("dataSource"), "must match dataSourceRef")
	}
}

func checkDataSource(ps *problems, p *field.Path, group *string, kind, name string) {
	ps.required(p.Child("name"), name)
	ps.required(p.Child("kind"), kind)
	if deref(group) != "" {
		ps.subdomain(p.Child("apiGroup"), *group)
		return
	}
	ps.valid(kind == "PersistentVolumeClaim", p, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
}

// validateClaimUpdate lets a claim be bound, and a bound claim grow and change
// its class of attributes. Nothing else of its spec may change.
func validateClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	ps := problems{list: validateClaim(c)}
	p := field.NewPath("spec")
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	matchDataSources(was) // of objects that are older than the second field
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	class, hasClass := c.Annotations[corev1.BetaStorageClassAnnotation]
	before, had := old.Annotations[corev1.BetaStorageClassAnnotation]
	if had && was.StorageClassName == nil && now.StorageClassName != nil && *now.StorageClassName == before && (!hasClass || class == before) {
		now.StorageClassName = nil // the annotation became a field
	} else {
		ps.valid(class == before, field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation), class, "field is immutable")
		if was.StorageClassName == nil && now.StorageClassName != nil && (!had || *now.StorageClassName == before) {
			now.StorageClassName = nil // a default that came later
		}
	}
	if c.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = was.Resources.Requests[corev1.ResourceStorage]
		}
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if differ(now, was) {
		ps.add(field.Forbidden(p, fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\nchanged: %s",
			strings.Join(changedFields(*now, *was), ", "))))
	}
	checkClaimGrowth(&ps, p, c, old)
	ps.immutable(field.NewPath("volumeMode"), c.Spec.VolumeMode, old.Spec.VolumeMode)
	if attributes := c.Spec.VolumeAttributesClassName; old.Status.CurrentVolumeAttributesClassName != nil && differ(attributes, old.Spec.VolumeAttributesClassName) {
		const message = "is forbidden when status.currentVolumeAttributesClassName is not nil"
		at := p.Child("volumeAttributesClassName")
		ps.allowed(attributes != nil, at, "update to nil "+message)
		ps.allowed(attributes == nil || *attributes != "", at, "update to empty string "+message)
	}
	return ps.list
}

// checkClaimGrowth lets a growth that has not happened yet be taken back in part.
func checkClaimGrowth(ps *problems, p *field.Path, c, old *corev1.PersistentVolumeClaim) {
	now, was := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	ps.allowed(now.Cmp(was) >= 0 || now.Cmp(old.Status.Capacity[corev1.ResourceStorage]) > 0,
		p.Child("resources", "requests", "storage"), "field can not be less than status.capacity")
}

// resizes are the states of a change of size, in upstream's order.
var resizes = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending,
}

func validateClaimStatus(c, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var ps problems
	p := field.NewPath("status")
	ps.present(len(c.Spec.AccessModes) > 0, field.NewPath("Spec", "accessModes"), "")
	for _, name := range sortedKeys(c.Status.Capacity) {
		checkSize(&ps, p.Child("capacity").Key(string(name)), c.Status.Capacity[name])
	}
	for _, name := range sortedKeys(c.Status.AllocatedResourceStatuses) {
		at := p.Child("allocatedResourceStatuses")
		checkClaimResource(&ps, at, name)
		if !slices.Contains(resizes, c.Status.AllocatedResourceStatuses[name]) {
			ps.add(field.NotSupported(at, name, resizes)) // as upstream says it
		}
	}
	for _, name := range sortedKeys(c.Status.AllocatedResources) {
		at := p.Child("allocatedResources")
		if checkClaimResource(&ps, at, name) {
			checkSize(&ps, at.Key(string(name)), c.Status.AllocatedResources[name])
		}
	}
	return ps.list
}

func checkSize(ps *problems, p *field.Path, q resource.Quantity) {
	ps.valid(q.Value() >= 0, p, q.Value(), "must be a valid resource quantity")
}

func checkClaimResource(ps *problems, p *field.Path, name corev1.ResourceName) bool {
	if msgs := validation.IsQualifiedName(string(name)); len(msgs) > 0 {
		ps.each(p, string(name), msgs)
		return false
	}
	if native(name) && name != corev1.ResourceStorage {
		ps.add(field.NotSupported(p, string(name), []corev1.ResourceName{corev1.ResourceStorage}))
		return false
	}
	return true
}
