package kube

import (
	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func persistentVolumeClaims() apiserver.Resource {
	type claim = corev1.PersistentVolumeClaim
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "PersistentVolumeClaim",
		Plural:     "persistentvolumeclaims",
		ShortNames: []string{"pvc"},
		Namespaced: true,
		New:        func() runtime.Object { return &claim{} },
		NewList:    func() runtime.Object { return &corev1.PersistentVolumeClaimList{} },
		Strategy: strategy[*claim]{
			complete: func(c *claim) {
				setIfEmpty(&c.Status.Phase, corev1.ClaimPending)
				completeClaimSpec(&c.Spec)
				roundUp(c.Status.Capacity)
				roundUp(c.Status.AllocatedResources)
			},
			create: func(c *claim) {
				c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
				dropDataSource(&c.Spec, &corev1.PersistentVolumeClaimSpec{})
				matchDataSources(&c.Spec)
			},
			update: func(c, old *claim) {
				old.Status.DeepCopyInto(&c.Status)
				dropDataSource(&c.Spec, &old.Spec)
				matchDataSources(&c.Spec)
			},
			validate:       validateClaim,
			validateUpdate: validateClaimUpdate,
		}.erase(),
		Columns: claimColumns(),
		Fields: selectable[*claim]{
			// Upstream offers the name by this name too.
			"name": func(c *claim) string { return c.Name },
		}.erase(),
		Subresources: []apiserver.Subresource{
			status(strategy[*claim]{
				update:         func(c, old *claim) { old.Spec.DeepCopyInto(&c.Spec) },
				validateUpdate: validateClaimStatus,
			}),
		},
	}
}

func completeClaimSpec(s *corev1.PersistentVolumeClaimSpec) {
	setIfNil(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(s.Resources.Limits)
	roundUp(s.Resources.Requests)
}

// dropDataSource drops what older servers took and ignored, unless it is in use:
// sources of other kinds than claims and snapshots in dataSource, and references
// to other namespaces, which nobody here follows.
func dropDataSource(s, old *corev1.PersistentVolumeClaimSpec) {
	if s.DataSourceRef != nil && deref(s.DataSourceRef.Namespace) != "" && old.DataSourceRef == nil {
		s.DataSourceRef = nil
	}
	from := s.DataSource
	if from == nil || s.DataSourceRef != nil || old.DataSource != nil || old.DataSourceRef != nil {
		return
	}
	group := deref(from.APIGroup)
	if from.Kind == "PersistentVolumeClaim" && group == "" || from.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io" {
		return
	}
	s.DataSource = nil
}

// matchDataSources fills the one of dataSource and dataSourceRef that is empty.
func matchDataSources(s *corev1.PersistentVolumeClaimSpec) {
	switch from, ref := s.DataSource, s.DataSourceRef; {
	case from != nil && ref == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{Kind: from.Kind, Name: from.Name, APIGroup: from.DeepCopy().APIGroup}
	case from == nil && ref != nil && deref(ref.Namespace) == "":
		s.DataSource = &corev1.TypedLocalObjectReference{Kind: ref.Kind, Name: ref.Name, APIGroup: ref.DeepCopy().APIGroup}
	}
}

func claimColumns() []apiserver.Column {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	type claim = corev1.PersistentVolumeClaim
	return append([]apiserver.Column{
		text("Status", status["phase"], func(c *claim) string {
			if c.DeletionTimestamp != nil {
				return terminating
			}
			return string(c.Status.Phase)
		}),
		text("Volume", spec["volumeName"], func(c *claim) string { return c.Spec.VolumeName }),
		text("Capacity", status["capacity"], func(c *claim) string {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return storageText(c.Status.Capacity)
		}),
		text("Access Modes", status["accessModes"], func(c *claim) string {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return accessText(c.Status.AccessModes)
		}),
		text("StorageClass", "StorageClass of the pvc", func(c *claim) string {
			if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
				return class
			}
			return deref(c.Spec.StorageClassName)
		}),
		text("VolumeAttributesClass", "VolumeAttributesClass of the pvc", func(c *claim) string { return orUnset(c.Spec.VolumeAttributesClassName) }),
		age[*claim](),
	}, wide(text("VolumeMode", spec["volumeMode"], func(c *claim) string { return orUnset(c.Spec.VolumeMode) }))...)
}
