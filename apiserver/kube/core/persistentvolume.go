package core

import (
	"fmt"
	"path"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PersistentVolumes returns the resource of the kind PersistentVolume.
func PersistentVolumes() apiserver.Resource {
	type pv = corev1.PersistentVolume
	return apiserver.For(kinds.PersistentVolumes, apiserver.Resource{
		Strategy: define.Strategy[*pv]{
			Default: completePersistentVolume,
			Create: func(v *pv) {
				v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: new(metav1.Now())}
			},
			Update:         func(v, old *pv) { old.Status.DeepCopyInto(&v.Status) },
			Validate:       validatePersistentVolume,
			ValidateUpdate: validatePersistentVolumeUpdate,
		}.Erase(),
		Columns: persistentVolumeColumns(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*pv]{
				Update:         updatePersistentVolumeStatus,
				ValidateUpdate: func(*pv, *pv) field.ErrorList { return nil },
			}),
		},
	})
}

func completePersistentVolume(v *corev1.PersistentVolume) {
	optional.SetIfEmpty(&v.Status.Phase, corev1.VolumePending)
	spec := &v.Spec
	optional.SetIfEmpty(&spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	optional.SetIfNil(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	podspec.RoundUp(spec.Capacity)
	switch {
	case spec.HostPath != nil:
		optional.SetIfNil(&spec.HostPath.Type, corev1.HostPathUnset)
	case spec.ISCSI != nil:
		optional.SetIfEmpty(&spec.ISCSI.ISCSIInterface, "default")
	case spec.RBD != nil:
		optional.SetIfEmpty(&spec.RBD.RBDPool, "rbd")
		optional.SetIfEmpty(&spec.RBD.RadosUser, "admin")
		optional.SetIfEmpty(&spec.RBD.Keyring, "/etc/ceph/keyring")
	case spec.AzureDisk != nil:
		podspec.DefaultNetworkVolume(&corev1.VolumeSource{AzureDisk: spec.AzureDisk})
	case spec.ScaleIO != nil:
		optional.SetIfEmpty(&spec.ScaleIO.StorageMode, "ThinProvisioned")
		optional.SetIfEmpty(&spec.ScaleIO.FSType, "xfs")
	}
}

// updatePersistentVolumeStatus sets the time of a change of the phase, unless the client does.
func updatePersistentVolumeStatus(v, old *corev1.PersistentVolume) {
	old.Spec.DeepCopyInto(&v.Spec)
	now, was := &v.Status, &old.Status
	switch {
	case now.Phase == was.Phase && now.LastPhaseTransitionTime == nil:
		now.LastPhaseTransitionTime = was.LastPhaseTransitionTime.DeepCopy()
	case now.Phase != was.Phase && (now.LastPhaseTransitionTime == nil || now.LastPhaseTransitionTime.Equal(was.LastPhaseTransitionTime)):
		now.LastPhaseTransitionTime = new(metav1.Now())
	}
}

func persistentVolumeColumns() []apiserver.Column {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	type pv = corev1.PersistentVolume
	return append([]apiserver.Column{
		column.Text("Capacity", spec["capacity"], func(v *pv) string { return storageText(v.Spec.Capacity) }),
		column.Text("Access Modes", spec["accessModes"], func(v *pv) string { return accessText(v.Spec.AccessModes) }),
		column.Text("Reclaim Policy", spec["persistentVolumeReclaimPolicy"], func(v *pv) string { return string(v.Spec.PersistentVolumeReclaimPolicy) }),
		column.Text("Status", status["phase"], func(v *pv) string {
			if v.DeletionTimestamp != nil {
				return terminating
			}
			return string(v.Status.Phase)
		}),
		column.Text("Claim", spec["claimRef"], func(v *pv) string {
			if v.Spec.ClaimRef == nil {
				return ""
			}
			return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
		}),
		column.Text("StorageClass", "StorageClass of the pv", func(v *pv) string {
			if class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
				return class
			}
			return v.Spec.StorageClassName
		}),
		column.Text("VolumeAttributesClass", "VolumeAttributesClass of the pv", func(v *pv) string { return orUnset(v.Spec.VolumeAttributesClassName) }),
		column.Text("Reason", status["reason"], func(v *pv) string { return v.Status.Reason }),
		column.Age[*pv](),
	}, column.Wide(column.Text("VolumeMode", spec["volumeMode"], func(v *pv) string { return orUnset(v.Spec.VolumeMode) }))...)
}

// terminating is the phase that tables show for an object that is being deleted.
const terminating = "Terminating"

func orUnset[T ~string](s *T) string {
	if s == nil {
		return "<unset>"
	}
	return string(*s)
}

func storageText(list corev1.ResourceList) string {
	q := list[corev1.ResourceStorage]
	return q.String()
}

// accessText shortens access modes, as kubectl does.
func accessText(modes []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}

func validatePersistentVolume(v *corev1.PersistentVolume) field.ErrorList {
	var ps check.Problems
	checkPersistentVolume(&ps, field.NewPath("spec"), &v.Spec)
	if _, ok := v.Annotations[corev1.MountOptionAnnotation]; ok {
		ps.Allowed(podspec.MountsWithOptions(&v.Spec), field.NewPath("metadata", "annotations", corev1.MountOptionAnnotation),
			"may not specify mount options for this volume type")
	}
	return ps.List
}

func checkPersistentVolume(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	ps.Present(len(spec.AccessModes) > 0, p.Child("accessModes"), "")
	podspec.CheckAccessModes(ps, p.Child("accessModes"), spec.AccessModes)
	checkCapacity(ps, p.Child("capacity"), spec.Capacity)
	policy := p.Child("persistentVolumeReclaimPolicy")
	if spec.PersistentVolumeReclaimPolicy != "" {
		check.OneOf(ps, policy, spec.PersistentVolumeReclaimPolicy,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	if a := spec.NodeAffinity; a != nil {
		at := p.Child("nodeAffinity", "required")
		if a.Required == nil {
			ps.Add(field.Required(at, "must specify required node constraints"))
		} else {
			podspec.CheckNodeSelector(ps, at, a.Required)
		}
	}
	podspec.CheckPersistentSource(ps, p, spec)
	ps.Allowed(spec.HostPath == nil || path.Clean(spec.HostPath.Path) != "/" || spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRecycle,
		policy, "may not be 'recycle' for a hostPath mount of '/'")
	if spec.StorageClassName != "" {
		ps.Subdomain(p.Child("storageClassName"), spec.StorageClassName)
	}
	podspec.CheckVolumeMode(ps, p.Child("volumeMode"), spec.VolumeMode)
	if class := spec.VolumeAttributesClassName; class != nil {
		at := p.Child("volumeAttributesClassName")
		if *class == "" {
			ps.Add(field.Required(at, "an empty string is disallowed"))
		} else {
			ps.Subdomain(at, *class)
		}
		ps.Present(spec.CSI != nil, p.Child("csi"), "has to be specified when using volumeAttributesClassName")
	}
}

func checkCapacity(ps *check.Problems, p *field.Path, capacity corev1.ResourceList) {
	ps.Present(len(capacity) > 0, p, "")
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		ps.Add(field.NotSupported(p, capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range check.SortedKeys(capacity) {
		q, at := capacity[name], p.Key(string(name))
		ps.Valid(q.Value() >= 0, at, q.Value(), "must be a valid resource quantity")
		ps.Valid(q.Sign() > 0, at, q.String(), "must be greater than zero")
	}
}

func validatePersistentVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	ps := check.Problems{List: validatePersistentVolume(v)}
	checkPersistentVolume(&ps, field.NewPath("spec"), &v.Spec) // once more, as upstream says it
	now := v.Spec.PersistentVolumeSource.DeepCopy()
	if was := old.Spec.CSI; was != nil && now.CSI != nil && was.ControllerExpandSecretRef == nil {
		now.CSI.ControllerExpandSecretRef = nil // it may be added
	}
	if define.Differ(*now, old.Spec.PersistentVolumeSource) {
		ps.Add(field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\nchanged: %s",
				strings.Join(changedFields(*now, old.Spec.PersistentVolumeSource), ", "))))
	}
	ps.Immutable(field.NewPath("volumeMode"), v.Spec.VolumeMode, old.Spec.VolumeMode)
	if old.Spec.NodeAffinity != nil && define.Differ(v.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		ps.Add(field.Invalid(field.NewPath("nodeAffinity"), v.Spec.NodeAffinity, "field is immutable, except for updating from beta label to GA"))
	}
	ps.Allowed(old.Spec.VolumeAttributesClassName == nil || v.Spec.VolumeAttributesClassName != nil,
		field.NewPath("spec", "volumeAttributesClassName"), "update from non-nil value to nil is forbidden")
	return ps.List
}
