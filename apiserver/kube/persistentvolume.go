package kube

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func persistentVolumes() apiserver.Resource {
	type pv = corev1.PersistentVolume
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "PersistentVolume",
		Plural:     "persistentvolumes",
		ShortNames: []string{"pv"},
		New:        func() runtime.Object { return &pv{} },
		NewList:    func() runtime.Object { return &corev1.PersistentVolumeList{} },
		Strategy: strategy[*pv]{
			complete: completePersistentVolume,
			create: func(v *pv) {
				v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: new(metav1.Now())}
			},
			update:         func(v, old *pv) { old.Status.DeepCopyInto(&v.Status) },
			validate:       validatePersistentVolume,
			validateUpdate: validatePersistentVolumeUpdate,
		}.erase(),
		Columns: persistentVolumeColumns(),
		Fields: selectable[*pv]{
			// Upstream offers the name by this name too.
			"name": func(v *pv) string { return v.Name },
		}.erase(),
		Subresources: []apiserver.Subresource{
			status(strategy[*pv]{
				update:         updatePersistentVolumeStatus,
				validateUpdate: func(*pv, *pv) field.ErrorList { return nil },
			}),
		},
	}
}

func completePersistentVolume(v *corev1.PersistentVolume) {
	setIfEmpty(&v.Status.Phase, corev1.VolumePending)
	spec := &v.Spec
	setIfEmpty(&spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	setIfNil(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(spec.Capacity)
	switch {
	case spec.HostPath != nil:
		setIfNil(&spec.HostPath.Type, corev1.HostPathUnset)
	case spec.ISCSI != nil:
		setIfEmpty(&spec.ISCSI.ISCSIInterface, "default")
	case spec.RBD != nil:
		setIfEmpty(&spec.RBD.RBDPool, "rbd")
		setIfEmpty(&spec.RBD.RadosUser, "admin")
		setIfEmpty(&spec.RBD.Keyring, "/etc/ceph/keyring")
	case spec.AzureDisk != nil:
		defaultNetworkVolume(&corev1.VolumeSource{AzureDisk: spec.AzureDisk})
	case spec.ScaleIO != nil:
		setIfEmpty(&spec.ScaleIO.StorageMode, "ThinProvisioned")
		setIfEmpty(&spec.ScaleIO.FSType, "xfs")
	}
}

// updatePersistentVolumeStatus notes when the phase changed, unless the client
// does.
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
		text("Capacity", spec["capacity"], func(v *pv) string { return storageText(v.Spec.Capacity) }),
		text("Access Modes", spec["accessModes"], func(v *pv) string { return accessText(v.Spec.AccessModes) }),
		text("Reclaim Policy", spec["persistentVolumeReclaimPolicy"], func(v *pv) string { return string(v.Spec.PersistentVolumeReclaimPolicy) }),
		text("Status", status["phase"], func(v *pv) string {
			if v.DeletionTimestamp != nil {
				return terminating
			}
			return string(v.Status.Phase)
		}),
		text("Claim", spec["claimRef"], func(v *pv) string {
			if v.Spec.ClaimRef == nil {
				return ""
			}
			return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
		}),
		text("StorageClass", "StorageClass of the pv", func(v *pv) string {
			if class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
				return class
			}
			return v.Spec.StorageClassName
		}),
		text("VolumeAttributesClass", "VolumeAttributesClass of the pv", func(v *pv) string { return orUnset(v.Spec.VolumeAttributesClassName) }),
		text("Reason", status["reason"], func(v *pv) string { return v.Status.Reason }),
		age[*pv](),
	}, wide(text("VolumeMode", spec["volumeMode"], func(v *pv) string { return orUnset(v.Spec.VolumeMode) }))...)
}

// terminating is the phase of what is being deleted.
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
	var ps problems
	p := field.NewPath("spec")
	checkPersistentVolume(&ps, p, &v.Spec)
	if _, ok := v.Annotations[corev1.MountOptionAnnotation]; ok {
		ps.allowed(mountsWithOptions(&v.Spec), field.NewPath("metadata", "annotations", corev1.MountOptionAnnotation),
			"may not specify mount options for this volume type")
	}
	return ps.list
}

func checkPersistentVolume(ps *problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	ps.present(len(spec.AccessModes) > 0, p.Child("accessModes"), "")
	checkAccessModes(ps, p.Child("accessModes"), spec.AccessModes)
	checkCapacity(ps, p.Child("capacity"), spec.Capacity)
	policy := p.Child("persistentVolumeReclaimPolicy")
	if spec.PersistentVolumeReclaimPolicy != "" {
		oneOf(ps, policy, spec.PersistentVolumeReclaimPolicy,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	if a := spec.NodeAffinity; a != nil {
		at := p.Child("nodeAffinity", "required")
		if a.Required == nil {
			ps.add(field.Required(at, "must specify required node constraints"))
		} else {
			checkNodeSelector(ps, at, a.Required)
		}
	}
	checkPersistentSource(ps, p, spec)
	ps.allowed(spec.HostPath == nil || path.Clean(spec.HostPath.Path) != "/" || spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRecycle,
		policy, "may not be 'recycle' for a hostPath mount of '/'")
	if spec.StorageClassName != "" {
		ps.subdomain(p.Child("storageClassName"), spec.StorageClassName)
	}
	checkVolumeMode(ps, p.Child("volumeMode"), spec.VolumeMode)
	if class := spec.VolumeAttributesClassName; class != nil {
		at := p.Child("volumeAttributesClassName")
		if *class == "" {
			ps.add(field.Required(at, "an empty string is disallowed"))
		} else {
			ps.subdomain(at, *class)
		}
		ps.present(spec.CSI != nil, p.Child("csi"), "has to be specified when using volumeAttributesClassName")
	}
}

func checkVolumeMode(ps *problems, p *field.Path, mode *corev1.PersistentVolumeMode) {
	if mode != nil {
		oneOf(ps, p, *mode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
}

var accessModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
}

func checkAccessModes(ps *problems, p *field.Path, modes []corev1.PersistentVolumeAccessMode) {
	single, other := false, false
	for _, m := range modes {
		oneOf(ps, p, m, accessModes...)
		single = single || m == corev1.ReadWriteOncePod
		other = other || m != corev1.ReadWriteOncePod && slices.Contains(accessModes, m)
	}
	ps.allowed(!single || !other, p, "may not use ReadWriteOncePod with other access modes")
}

func checkCapacity(ps *problems, p *field.Path, capacity corev1.ResourceList) {
	ps.present(len(capacity) > 0, p, "")
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		ps.add(field.NotSupported(p, capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range sortedKeys(capacity) {
		q, at := capacity[name], p.Key(string(name))
		ps.valid(q.Value() >= 0, at, q.Value(), "must be a valid resource quantity")
		ps.valid(q.Sign() > 0, at, q.String(), "must be greater than zero")
	}
}

func validatePersistentVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	ps := problems{list: validatePersistentVolume(v)}
	ps.all(validatePersistentVolume(v)) // as often as upstream says it
	now := v.Spec.PersistentVolumeSource.DeepCopy()
	if was := old.Spec.CSI; was != nil && now.CSI != nil && was.ControllerExpandSecretRef == nil {
		now.CSI.ControllerExpandSecretRef = nil // it may be added
	}
	if differ(*now, old.Spec.PersistentVolumeSource) {
		ps.add(field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\nchanged: %s",
				strings.Join(changedFields(*now, old.Spec.PersistentVolumeSource), ", "))))
	}
	ps.immutable(field.NewPath("volumeMode"), v.Spec.VolumeMode, old.Spec.VolumeMode)
	if old.Spec.NodeAffinity != nil && differ(v.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		ps.add(field.Invalid(field.NewPath("nodeAffinity"), v.Spec.NodeAffinity, "field is immutable, except for updating from beta label to GA"))
	}
	ps.allowed(old.Spec.VolumeAttributesClassName == nil || v.Spec.VolumeAttributesClassName != nil,
		field.NewPath("spec", "volumeAttributesClassName"), "update from non-nil value to nil is forbidden")
	return ps.list
}
