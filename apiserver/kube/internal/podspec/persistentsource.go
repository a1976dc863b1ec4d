package podspec

import (
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A persistentSource is one way to make a persistent volume. Those without check belong to storage
// systems that nodes no longer support or reach through a CSI driver: only their presence is
// checked.
type persistentSource struct {
	path    string
	set     bool
	options bool // it is mounted with options from an annotation, too
	check   func(*check.Problems, *field.Path, *corev1.PersistentVolumeSpec)
}

func persistentSources(s *corev1.PersistentVolumeSource) []persistentSource {
	return []persistentSource{
		{"hostPath", s.HostPath != nil, false, func(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
			checkHostPath(ps, p, &corev1.VolumeSource{HostPath: spec.HostPath})
		}},
		{"gcePersistentDisk", s.GCEPersistentDisk != nil, true, nil},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil, true, nil},
		{"glusterfs", s.Glusterfs != nil, true, nil},
		{"flocker", s.Flocker != nil, false, nil},
		{"nfs", s.NFS != nil, true, func(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
			checkNFS(ps, p, &corev1.VolumeSource{NFS: spec.NFS})
		}},
		{"rbd", s.RBD != nil, true, nil},
		{"quobyte", s.Quobyte != nil, true, nil},
		{"cephFS", s.CephFS != nil, true, nil},
		{"iscsi", s.ISCSI != nil, true, nil},
		{"cinder", s.Cinder != nil, true, nil},
		{"fc", s.FC != nil, false, nil},
		{"flexVolume", s.FlexVolume != nil, false, nil},
		{"azureFile", s.AzureFile != nil, true, nil},
		{"vsphereVolume", s.VsphereVolume != nil, true, nil},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil, true, nil},
		{"portworxVolume", s.PortworxVolume != nil, false, nil},
		{"azureDisk", s.AzureDisk != nil, true, nil},
		{"scaleIO", s.ScaleIO != nil, false, nil},
		{"local", s.Local != nil, false, checkLocal},
		{"storageos", s.StorageOS != nil, false, nil},
		{"csi", s.CSI != nil, false, checkPersistentCSI},
	}
}

// MountsWithOptions reports whether a volume can be mounted with options from an annotation.
func MountsWithOptions(spec *corev1.PersistentVolumeSpec) bool {
	for _, s := range persistentSources(&spec.PersistentVolumeSource) {
		if s.set && s.options {
			return true
		}
	}
	return false
}

// CheckPersistentSource requires exactly one source and checks it.
func CheckPersistentSource(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	found := false
	for _, s := range persistentSources(&spec.PersistentVolumeSource) {
		switch {
		case !s.set:
			continue
		case found:
			ps.Add(field.Forbidden(p.Child(s.path), "may not specify more than 1 volume type"))
		case s.check != nil:
			s.check(ps, p.Child(s.path), spec)
		}
		found = true
	}
	ps.Present(found, p, "must specify a volume type")
}

func checkLocal(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	if ps.Required(p.Child("path"), spec.Local.Path) {
		checkBacksteps(ps, p.Child("path"), spec.Local.Path)
	}
	ps.Present(spec.NodeAffinity != nil, field.NewPath("spec", "nodeAffinity"), "Local volume requires node affinity")
}

func checkPersistentCSI(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	csi := spec.CSI
	CheckDriverName(ps, p.Child("driver"), csi.Driver)
	ps.Required(p.Child("volumeHandle"), csi.VolumeHandle)
	for _, ref := range []struct {
		path   string
		secret *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", csi.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", csi.ControllerExpandSecretRef},
		{"nodePublishSecretRef", csi.NodePublishSecretRef},
		{"nodeExpandSecretRef", csi.NodeExpandSecretRef},
	} {
		if ref.secret == nil {
			continue
		}
		at := p.Child(ref.path)
		ps.Named(at.Child("name"), ref.secret.Name)
		if ps.Required(at.Child("namespace"), ref.secret.Namespace) {
			ps.DNSLabel(at.Child("namespace"), ref.secret.Namespace)
		}
	}
}

// maxDriverName is the longest name of a driver, which becomes a directory.
const maxDriverName = 63

// CheckDriverName requires the name of a CSI driver. Case does not matter.
func CheckDriverName(ps *check.Problems, p *field.Path, name string) {
	if !ps.Required(p, name) {
		return
	}
	if len(name) > maxDriverName {
		ps.Add(field.TooLong(p, "", maxDriverName))
	}
	for _, msg := range validation.IsDNS1123Subdomain(strings.ToLower(name)) {
		ps.Add(field.Invalid(p, name, msg))
	}
}
