package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PersistentVolumeClaims returns the resource of the kind PersistentVolumeClaim.
func PersistentVolumeClaims() apiserver.Resource {
	type claim = corev1.PersistentVolumeClaim
	return apiserver.For(kinds.PersistentVolumeClaims, apiserver.Resource{
		Strategy: define.Strategy[*claim]{
			Default: func(c *claim) {
				optional.SetIfEmpty(&c.Status.Phase, corev1.ClaimPending)
				podspec.CompleteClaimSpec(&c.Spec)
				podspec.RoundUp(c.Status.Capacity)
				podspec.RoundUp(c.Status.AllocatedResources)
			},
			Create: func(c *claim) {
				c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
				dropDataSource(&c.Spec, &corev1.PersistentVolumeClaimSpec{})
				podspec.MatchDataSources(&c.Spec)
			},
			Update: func(c, old *claim) {
				old.Status.DeepCopyInto(&c.Status)
				dropDataSource(&c.Spec, &old.Spec)
				podspec.MatchDataSources(&c.Spec)
			},
			Validate:       validateClaim,
			ValidateUpdate: validateClaimUpdate,
		}.Erase(),
		Columns: claimColumns(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*claim]{
				Update:         func(c, old *claim) { old.Spec.DeepCopyInto(&c.Spec) },
				ValidateUpdate: validateClaimStatus,
			}),
		},
	})
}

// dropDataSource drops sources that older servers accepted and ignored, unless the old object has
// them: kinds other than claims and snapshots in dataSource, and references to other namespaces.
func dropDataSource(s, old *corev1.PersistentVolumeClaimSpec) {
	if s.DataSourceRef != nil && optional.Deref(s.DataSourceRef.Namespace) != "" && old.DataSourceRef == nil {
		s.DataSourceRef = nil
	}
	from := s.DataSource
	if from == nil || s.DataSourceRef != nil || old.DataSource != nil || old.DataSourceRef != nil {
		return
	}
	group := optional.Deref(from.APIGroup)
	if from.Kind == "PersistentVolumeClaim" && group == "" || from.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io" {
		return
	}
	s.DataSource = nil
}

func claimColumns() []apiserver.Column {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	type claim = corev1.PersistentVolumeClaim
	return append([]apiserver.Column{
		column.Text("Status", status["phase"], func(c *claim) string {
			if c.DeletionTimestamp != nil {
				return terminating
			}
			return string(c.Status.Phase)
		}),
		column.Text("Volume", spec["volumeName"], func(c *claim) string { return c.Spec.VolumeName }),
		column.Text("Capacity", status["capacity"], func(c *claim) string {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return storageText(c.Status.Capacity)
		}),
		column.Text("Access Modes", status["accessModes"], func(c *claim) string {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return accessText(c.Status.AccessModes)
		}),
		column.Text("StorageClass", "StorageClass of the pvc", func(c *claim) string {
			if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
				return class
			}
			return optional.Deref(c.Spec.StorageClassName)
		}),
		column.Text("VolumeAttributesClass", "VolumeAttributesClass of the pvc", func(c *claim) string { return orUnset(c.Spec.VolumeAttributesClassName) }),
		column.Age[*claim](),
	}, column.Wide(column.Text("VolumeMode", spec["volumeMode"], func(c *claim) string { return orUnset(c.Spec.VolumeMode) }))...)
}

func validateClaim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	var ps check.Problems
	podspec.CheckClaim(&ps, field.NewPath("spec"), &c.Spec)
	return ps.List
}

// validateClaimUpdate allows a claim to be bound, and a bound claim to grow and to change its class
// of attributes. Nothing else of its spec may change.
func validateClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	ps := check.Problems{List: validateClaim(c)}
	p := field.NewPath("spec")
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	podspec.MatchDataSources(was) // of objects that are older than the second field
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	class, hasClass := c.Annotations[corev1.BetaStorageClassAnnotation]
	before, had := old.Annotations[corev1.BetaStorageClassAnnotation]
	if had && was.StorageClassName == nil && now.StorageClassName != nil && *now.StorageClassName == before && (!hasClass || class == before) {
		now.StorageClassName = nil // the annotation became a field
	} else {
		ps.Valid(class == before, field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation), class, "field is immutable")
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
	if define.Differ(now, was) {
		ps.Add(field.Forbidden(p, fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\nchanged: %s",
			strings.Join(changedFields(*now, *was), ", "))))
	}
	checkClaimGrowth(&ps, p, c, old)
	ps.Immutable(field.NewPath("volumeMode"), c.Spec.VolumeMode, old.Spec.VolumeMode)
	if attributes := c.Spec.VolumeAttributesClassName; old.Status.CurrentVolumeAttributesClassName != nil && define.Differ(attributes, old.Spec.VolumeAttributesClassName) {
		const message = "is forbidden when status.currentVolumeAttributesClassName is not nil"
		at := p.Child("volumeAttributesClassName")
		ps.Allowed(attributes != nil, at, "update to nil "+message)
		ps.Allowed(attributes == nil || *attributes != "", at, "update to empty string "+message)
	}
	return ps.List
}

// checkClaimGrowth allows a client to take back a part of a growth that has not happened yet.
func checkClaimGrowth(ps *check.Problems, p *field.Path, c, old *corev1.PersistentVolumeClaim) {
	now, was := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	ps.Allowed(now.Cmp(was) >= 0 || now.Cmp(old.Status.Capacity[corev1.ResourceStorage]) > 0,
		p.Child("resources", "requests", "storage"), "field can not be less than status.capacity")
}

// resizes has the states of a change of size, in the order of Kubernetes' messages.
var resizes = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending,
}

func validateClaimStatus(c, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("status")
	ps.Present(len(c.Spec.AccessModes) > 0, field.NewPath("Spec", "accessModes"), "")
	for _, name := range check.SortedKeys(c.Status.Capacity) {
		podspec.CheckSize(&ps, p.Child("capacity").Key(string(name)), c.Status.Capacity[name])
	}
	for _, name := range check.SortedKeys(c.Status.AllocatedResourceStatuses) {
		at := p.Child("allocatedResourceStatuses")
		checkClaimResource(&ps, at, name)
		if !slices.Contains(resizes, c.Status.AllocatedResourceStatuses[name]) {
			ps.Add(field.NotSupported(at, name, resizes)) // as upstream says it
		}
	}
	for _, name := range check.SortedKeys(c.Status.AllocatedResources) {
		at := p.Child("allocatedResources")
		if checkClaimResource(&ps, at, name) {
			podspec.CheckSize(&ps, at.Key(string(name)), c.Status.AllocatedResources[name])
		}
	}
	return ps.List
}

func checkClaimResource(ps *check.Problems, p *field.Path, name corev1.ResourceName) bool {
	if msgs := validation.IsQualifiedName(string(name)); len(msgs) > 0 {
		ps.Each(p, string(name), msgs)
		return false
	}
	if podspec.IsNative(name) && name != corev1.ResourceStorage {
		ps.Add(field.NotSupported(p, string(name), []corev1.ResourceName{corev1.ResourceStorage}))
		return false
	}
	return true
}
