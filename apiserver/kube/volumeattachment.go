package kube

import (
	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of what attaching a volume leaves behind.
const (
	maxAttachmentBytes = 256 << 10
	maxVolumeError     = 1024
)

func volumeAttachments() apiserver.Resource {
	type attachment = storagev1.VolumeAttachment
	spec, state := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	validateUpdate := func(a, old *attachment) field.ErrorList {
		ps := problems{list: validateVolumeAttachment(a)}
		ps.immutable(field.NewPath("spec"), a.Spec, old.Spec)
		return ps.list
	}
	return apiserver.Resource{
		Group:   storagev1.GroupName,
		Version: "v1",
		Kind:    "VolumeAttachment",
		Plural:  "volumeattachments",
		New:     func() runtime.Object { return &attachment{} },
		NewList: func() runtime.Object { return &storagev1.VolumeAttachmentList{} },
		Strategy: strategy[*attachment]{
			create:         func(a *attachment) { a.Status = storagev1.VolumeAttachmentStatus{} },
			update:         func(a, old *attachment) { old.Status.DeepCopyInto(&a.Status) },
			validate:       validateVolumeAttachment,
			validateUpdate: validateUpdate,
		}.erase(),
		Columns: []apiserver.Column{
			text("Attacher", spec["attacher"], func(a *attachment) string { return a.Spec.Attacher }),
			text("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"],
				func(a *attachment) string { return deref(a.Spec.Source.PersistentVolumeName) }),
			text("Node", spec["nodeName"], func(a *attachment) string { return a.Spec.NodeName }),
			boolean("Attached", state["attached"], func(a *attachment) bool { return a.Status.Attached }),
			age[*attachment](),
		},
		Subresources: []apiserver.Subresource{
			status(strategy[*attachment]{
				update: func(a, old *attachment) {
					old.Spec.DeepCopyInto(&a.Spec)
					metav1.ResetObjectMetaForStatus(&a.ObjectMeta, &old.ObjectMeta)
				},
				validateUpdate: validateUpdate,
			}, "spec", "metadata"),
		},
	}
}

func validateVolumeAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	var ps problems
	p := field.NewPath("spec")
	checkDriverName(&ps, p.Child("attacher"), a.Spec.Attacher)
	checkAttachmentSource(&ps, p.Child("source"), &a.Spec.Source)
	ps.subdomain(p.Child("nodeName"), a.Spec.NodeName)
	size := 0
	for key, value := range a.Status.AttachmentMetadata {
		size += len(key) + len(value)
	}
	p = field.NewPath("status")
	ps.atMostBytes(p.Child("attachmentMetadata"), size, maxAttachmentBytes)
	for path, e := range map[string]*storagev1.VolumeError{"attachError": a.Status.AttachError, "detachError": a.Status.DetachError} {
		if e == nil {
			continue
		}
		if len(e.Message) > maxVolumeError {
			ps.add(field.TooLong(p.Child(path, "message"), "", maxAttachmentBytes)) // as upstream says it
		}
		ps.valid(deref(e.ErrorCode) >= 0, p.Child(path, "errorCode"), deref(e.ErrorCode), "must be between 0 and 2147483647, inclusive")
	}
	if name := a.Spec.Source.PersistentVolumeName; name != nil {
		ps.subdomain(field.NewPath("spec.source.persistentVolumeName"), *name)
	}
	return ps.list
}

func checkAttachmentSource(ps *problems, p *field.Path, s *storagev1.VolumeAttachmentSource) {
	const message = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	switch {
	case s.InlineVolumeSpec == nil && s.PersistentVolumeName == nil:
		ps.add(field.Required(p, message))
	case s.InlineVolumeSpec != nil && s.PersistentVolumeName != nil:
		ps.add(field.Forbidden(p, message))
	case s.PersistentVolumeName != nil:
		ps.present(*s.PersistentVolumeName != "", p.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")
	default:
		checkInlineVolume(ps, p.Child("inlineVolumeSpec"), s.InlineVolumeSpec)
	}
}

// checkInlineVolume checks a volume that a pod describes itself, migrated to CSI.
func checkInlineVolume(ps *problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	const context = "in the context of inline volumes"
	ps.allowed(spec.ClaimRef == nil, p.Child("claimRef"), "may not be specified "+context)
	ps.allowed(len(spec.Capacity) == 0, p.Child("capacity"), "may not be specified "+context)
	ps.present(spec.CSI != nil, p.Child("csi"), "has to be specified "+context)
	ps.present(len(spec.AccessModes) > 0, p.Child("accessModes"), "")
	checkAccessModes(ps, p.Child("accessModes"), spec.AccessModes)
	ps.allowed(spec.PersistentVolumeReclaimPolicy == "" || spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain,
		p.Child("persistentVolumeReclaimPolicy"), "may only be Retain "+context)
	ps.allowed(spec.NodeAffinity == nil, p.Child("nodeAffinity"), "may not be specified "+context)
	checkPersistentSource(ps, p, spec)
	ps.allowed(spec.StorageClassName == "", p.Child("storageClassName"), "may not be specified "+context)
	ps.allowed(spec.VolumeMode == nil || *spec.VolumeMode == corev1.PersistentVolumeFilesystem,
		p.Child("volumeMode"), "may not specify volumeMode other than Filesystem "+context)
}
