package podspec

import (
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A persistentSource is one way to make a persistent volume.
type persistentSource struct {
	path    string
	set     bool
	options bool // it is mounted with options from an annotation, too
	check   func(*check.Problems, *field.Path, *corev1.PersistentVolumeSpec)
}

func persistentSources(s *corev1.PersistentVolumeSource) []persistentSource {
	return []persistentSource{
		{"hostPath", s.HostPath != nil, false, like(checkHostPath)},
		{"gcePersistentDisk", s.GCEPersistentDisk != nil, true, like(checkGCE)},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil, true, like(checkAWS)},
		{"glusterfs", s.Glusterfs != nil, true, checkPersistentGlusterfs},
		{"flocker", s.Flocker != nil, false, like(checkFlocker)},
		{"nfs", s.NFS != nil, true, like(checkNFS)},
		{"rbd", s.RBD != nil, true, like(checkRBD)},
		{"quobyte", s.Quobyte != nil, true, like(checkQuobyte)},
		{"cephFS", s.CephFS != nil, true, like(checkCephFS)},
		{"iscsi", s.ISCSI != nil, true, checkPersistentISCSI},
		{"cinder", s.Cinder != nil, true, named(checkCinder, cinderSecret)},
		{"fc", s.FC != nil, false, like(checkFC)},
		{"flexVolume", s.FlexVolume != nil, false, like(checkFlex)},
		{"azureFile", s.AzureFile != nil, true, checkPersistentAzureFile},
		{"vsphereVolume", s.VsphereVolume != nil, true, like(checkVsphere)},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil, true, like(checkPhoton)},
		{"portworxVolume", s.PortworxVolume != nil, false, like(checkPortworx)},
		{"azureDisk", s.AzureDisk != nil, true, like(checkAzureDisk)},
		{"scaleIO", s.ScaleIO != nil, false, like(checkScaleIO)},
		{"local", s.Local != nil, false, checkLocal},
		{"storageos", s.StorageOS != nil, false, named(checkStorageOS, storageOSSecret)},
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
		case found && s.path != "flexVolume": // Kubernetes does not mind that one
			ps.Add(field.Forbidden(p.Child(s.path), "may not specify more than 1 volume type"))
		case checkedAs[s.path] != "":
			s.check(ps, p.Child(checkedAs[s.path]), spec)
		default:
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
