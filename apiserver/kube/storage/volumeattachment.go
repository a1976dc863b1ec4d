package storage

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of what attaching a volume leaves behind.
const (
	maxAttachmentBytes = 256 << 10
	maxVolumeError     = 1024
)

// VolumeAttachments returns the resource of the kind VolumeAttachment.
func VolumeAttachments() apiserver.Resource {
	type attachment = storagev1.VolumeAttachment
	spec, state := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	validateUpdate := func(a, old *attachment) field.ErrorList {
		ps := check.Problems{List: validateVolumeAttachment(a)}
		ps.Immutable(field.NewPath("spec"), a.Spec, old.Spec)
		return ps.List
	}
	return apiserver.For(kinds.VolumeAttachments, apiserver.Resource{
		Conditional: true,
		Strategy: define.Strategy[*attachment]{
			Create:         func(a *attachment) { a.Status = storagev1.VolumeAttachmentStatus{} },
			Update:         func(a, old *attachment) { old.Status.DeepCopyInto(&a.Status) },
			Validate:       validateVolumeAttachment,
			ValidateUpdate: validateUpdate,
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Attacher", spec["attacher"], func(a *attachment) string { return a.Spec.Attacher }),
			column.Text("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"],
				func(a *attachment) string { return optional.Deref(a.Spec.Source.PersistentVolumeName) }),
			column.Text("Node", spec["nodeName"], func(a *attachment) string { return a.Spec.NodeName }),
			column.Boolean("Attached", state["attached"], func(a *attachment) bool { return a.Status.Attached }),
			column.Age[*attachment](),
		},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*attachment]{
				Update: func(a, old *attachment) {
					old.Spec.DeepCopyInto(&a.Spec)
					metav1.ResetObjectMetaForStatus(&a.ObjectMeta, &old.ObjectMeta)
				},
				ValidateUpdate: validateUpdate,
			}, "spec", "metadata"),
		},
	})
}

func validateVolumeAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec")
	podspec.CheckDriverName(&ps, p.Child("attacher"), a.Spec.Attacher)
	checkAttachmentSource(&ps, p.Child("source"), &a.Spec.Source)
	ps.Subdomain(p.Child("nodeName"), a.Spec.NodeName)
	size := 0
	for key, value := range a.Status.AttachmentMetadata {
		size += len(key) + len(value)
	}
	p = field.NewPath("status")
	ps.AtMostBytes(p.Child("attachmentMetadata"), size, maxAttachmentBytes)
	for path, e := range map[string]*storagev1.VolumeError{"attachError": a.Status.AttachError, "detachError": a.Status.DetachError} {
		if e == nil {
			continue
		}
		if len(e.Message) > maxVolumeError {
			ps.Add(field.TooLong(p.Child(path, "message"), "", maxAttachmentBytes)) // as upstream says it
		}
		ps.Valid(optional.Deref(e.ErrorCode) >= 0, p.Child(path, "errorCode"), optional.Deref(e.ErrorCode), "must be between 0 and 2147483647, inclusive")
	}
	if name := a.Spec.Source.PersistentVolumeName; name != nil {
		ps.Subdomain(field.NewPath("spec.source.persistentVolumeName"), *name)
	}
	return ps.List
}

func checkAttachmentSource(ps *check.Problems, p *field.Path, s *storagev1.VolumeAttachmentSource) {
	const message = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	switch {
	case s.InlineVolumeSpec == nil && s.PersistentVolumeName == nil:
		ps.Add(field.Required(p, message))
	case s.InlineVolumeSpec != nil && s.PersistentVolumeName != nil:
		ps.Add(field.Forbidden(p, message))
	case s.PersistentVolumeName != nil:
		ps.Present(*s.PersistentVolumeName != "", p.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")
	default:
		checkInlineVolume(ps, p.Child("inlineVolumeSpec"), s.InlineVolumeSpec)
	}
}

// checkInlineVolume checks a volume that a pod describes itself, migrated to CSI.
func checkInlineVolume(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	const context = "in the context of inline volumes"
	ps.Allowed(spec.ClaimRef == nil, p.Child("claimRef"), "may not be specified "+context)
	ps.Allowed(len(spec.Capacity) == 0, p.Child("capacity"), "may not be specified "+context)
	ps.Present(spec.CSI != nil, p.Child("csi"), "has to be specified "+context)
	ps.Present(len(spec.AccessModes) > 0, p.Child("accessModes"), "")
	podspec.CheckAccessModes(ps, p.Child("accessModes"), spec.AccessModes)
	ps.Allowed(spec.PersistentVolumeReclaimPolicy == "" || spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain,
		p.Child("persistentVolumeReclaimPolicy"), "may only be Retain "+context)
	ps.Allowed(spec.NodeAffinity == nil, p.Child("nodeAffinity"), "may not be specified "+context)
	podspec.CheckPersistentSource(ps, p, spec)
	ps.Allowed(spec.StorageClassName == "", p.Child("storageClassName"), "may not be specified "+context)
	ps.Allowed(spec.VolumeMode == nil || *spec.VolumeMode == corev1.PersistentVolumeFilesystem,
		p.Child("volumeMode"), "may not specify volumeMode other than Filesystem "+context)
}
