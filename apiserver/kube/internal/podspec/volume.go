package podspec

import (
	"path"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// tokenSeconds is how long a projected service account token lives by default.
const tokenSeconds = 60 * 60

// defaultVolume completes a volume. One without a source is an emptyDir.
func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	switch {
	case v.HostPath != nil:
		optional.SetIfNil(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Secret != nil:
		optional.SetIfNil(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil:
		optional.SetIfNil(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		optional.SetIfNil(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.DownwardAPI.Items)
	case v.Projected != nil:
		defaultProjected(v.Projected)
	case v.Image != nil:
		if v.Image.PullPolicy == "" {
			v.Image.PullPolicy = pullPolicy(v.Image.Reference)
		}
	case v.Ephemeral != nil:
		if t := v.Ephemeral.VolumeClaimTemplate; t != nil {
			optional.SetIfNil(&t.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
			RoundUp(t.Spec.Resources.Limits)
			RoundUp(t.Spec.Resources.Requests)
		}
	}
	DefaultNetworkVolume(&v.VolumeSource)
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	optional.SetIfNil(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		if d := p.Sources[i].DownwardAPI; d != nil {
			defaultDownward(d.Items)
		}
		if t := p.Sources[i].ServiceAccountToken; t != nil {
			optional.SetIfNil(&t.ExpirationSeconds, tokenSeconds)
		}
	}
}

// DefaultNetworkVolume completes the volumes of storage systems.
func DefaultNetworkVolume(v *corev1.VolumeSource) {
	switch {
	case v.ISCSI != nil:
		optional.SetIfEmpty(&v.ISCSI.ISCSIInterface, "default")
	case v.RBD != nil:
		optional.SetIfEmpty(&v.RBD.RBDPool, "rbd")
		optional.SetIfEmpty(&v.RBD.RadosUser, "admin")
		optional.SetIfEmpty(&v.RBD.Keyring, "/etc/ceph/keyring")
	case v.AzureDisk != nil:
		optional.SetIfNil(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		optional.SetIfNil(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
		optional.SetIfNil(&v.AzureDisk.FSType, "ext4")
		optional.SetIfNil(&v.AzureDisk.ReadOnly, false)
	case v.ScaleIO != nil:
		optional.SetIfEmpty(&v.ScaleIO.StorageMode, "ThinProvisioned")
		optional.SetIfEmpty(&v.ScaleIO.FSType, "xfs")
	}
}

// checkVolumes checks a pod's volumes and returns the valid ones by name: only
// these can be mounted.
func checkVolumes(ps *check.Problems, p *field.Path, volumes []corev1.Volume) map[string]*corev1.VolumeSource {
	names := map[string]*corev1.VolumeSource{}
	for i := range volumes {
		v, at := &volumes[i], p.Index(i)
		var own check.Problems
		checkVolumeSource(&own, at, &v.VolumeSource)
		if s := v.ISCSI; s != nil && s.InitiatorName != nil {
			own.Valid(len(v.Name)+len(":")+len(s.TargetPortal) <= longestTarget, at.Child("name"), v.Name, longTarget)
		}
		if own.Required(at.Child("name"), v.Name) {
			own.DNSLabel(at.Child("name"), v.Name)
		}
		if names[v.Name] != nil {
			own.Add(field.Duplicate(at.Child("name"), v.Name))
		}
		if len(own.List) == 0 {
			names[v.Name] = &v.VolumeSource
		}
		ps.All(own.List)
	}
	return names
}

// checkVolumeSource requires exactly one source and checks it.
func checkVolumeSource(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	found := false
	for _, source := range volumeSources(v) {
		if !source.set {
			continue
		}
		at := p.Child(source.path)
		if found {
			ps.Add(field.Forbidden(at, "may not specify more than 1 volume type"))
			continue
		}
		found = true
		if as := checkedAs[source.path]; as != "" {
			at = p.Child(as)
		}
		source.check(ps, at, v)
	}
	ps.Present(found, p, "must specify a volume type")
}

// volumeSource is one way to fill a volume.
type volumeSource struct {
	path  string
	set   bool
	check sourceCheck
}

func volumeSources(v *corev1.VolumeSource) []volumeSource {
	return []volumeSource{
		{"emptyDir", v.EmptyDir != nil, checkEmptyDir},
		{"hostPath", v.HostPath != nil, checkHostPath},
		{"gitRepo", v.GitRepo != nil, checkGitRepo},
		{"gcePersistentDisk", v.GCEPersistentDisk != nil, checkGCE},
		{"awsElasticBlockStore", v.AWSElasticBlockStore != nil, checkAWS},
		{"secret", v.Secret != nil, checkSecretVolume},
		{"nfs", v.NFS != nil, checkNFS},
		{"iscsi", v.ISCSI != nil, checkISCSI},
		{"glusterfs", v.Glusterfs != nil, checkGlusterfs},
		{"flocker", v.Flocker != nil, checkFlocker},
		{"persistentVolumeClaim", v.PersistentVolumeClaim != nil, checkClaimVolume},
		{"rbd", v.RBD != nil, checkRBD},
		{"cinder", v.Cinder != nil, checkCinder},
		{"cephFS", v.CephFS != nil, checkCephFS},
		{"quobyte", v.Quobyte != nil, checkQuobyte},
		{"downwardAPI", v.DownwardAPI != nil, checkDownward},
		{"fc", v.FC != nil, checkFC},
		{"flexVolume", v.FlexVolume != nil, checkFlex},
		{"configMap", v.ConfigMap != nil, checkConfigMapVolume},
		{"azureFile", v.AzureFile != nil, checkAzureFile},
		{"vsphereVolume", v.VsphereVolume != nil, checkVsphere},
		{"photonPersistentDisk", v.PhotonPersistentDisk != nil, checkPhoton},
		{"portworxVolume", v.PortworxVolume != nil, checkPortworx},
		{"azureDisk", v.AzureDisk != nil, checkAzureDisk},
		{"storageos", v.StorageOS != nil, checkStorageOS},
		{"projected", v.Projected != nil, checkProjected},
		{"scaleIO", v.ScaleIO != nil, checkScaleIO},
		{"csi", v.CSI != nil, checkCSI},
		{"ephemeral", v.Ephemeral != nil, checkEphemeral},
		{"image", v.Image != nil, checkImageVolume},
	}
}

func checkEmptyDir(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	if limit := v.EmptyDir.SizeLimit; limit != nil && limit.Sign() < 0 {
		ps.Add(field.Forbidden(p.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
	}
}

var hostPathTypes = []corev1.HostPathType{
	corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
	corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket,
}

func checkHostPath(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	if ps.Required(p.Child("path"), v.HostPath.Path) {
		checkBacksteps(ps, p.Child("path"), v.HostPath.Path)
	}
	if v.HostPath.Type != nil {
		check.OneOf(ps, p.Child("type"), *v.HostPath.Type, hostPathTypes...)
	}
}

func checkSecretVolume(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Required(p.Child("secretName"), v.Secret.SecretName)
	ps.Mode(p.Child("defaultMode"), v.Secret.DefaultMode)
	checkItems(ps, p.Child("items"), v.Secret.Items)
}

func checkConfigMapVolume(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Required(p.Child("name"), v.ConfigMap.Name)
	ps.Mode(p.Child("defaultMode"), v.ConfigMap.DefaultMode)
	checkItems(ps, p.Child("items"), v.ConfigMap.Items)
}

// checkItems checks which keys become which files.
func checkItems(ps *check.Problems, p *field.Path, items []corev1.KeyToPath) {
	for i, item := range items {
		at := p.Index(i)
		ps.Required(at.Child("key"), item.Key)
		if ps.Required(at.Child("path"), item.Path) {
			checkUnreserved(ps, at.Child("path"), item.Path)
		}
		ps.Mode(at.Child("mode"), item.Mode)
	}
}

func checkNFS(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Required(p.Child("server"), v.NFS.Server)
	ps.Required(p.Child("path"), v.NFS.Path)
	ps.Valid(path.IsAbs(v.NFS.Path), p.Child("path"), v.NFS.Path, "must be an absolute path")
}

func checkClaimVolume(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Required(p.Child("claimName"), v.PersistentVolumeClaim.ClaimName)
}

func checkCSI(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	if ps.Required(p.Child("driver"), v.CSI.Driver) {
		ps.Subdomain(p.Child("driver"), strings.ToLower(v.CSI.Driver))
	}
	if ref := v.CSI.NodePublishSecretRef; ref != nil && ps.Required(p.Child("nodePublishSecretRef", "name"), ref.Name) {
		ps.Subdomain(p.Child("name"), ref.Name)
	}
}

func checkImageVolume(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	check.RequiredOneOf(ps, p.Child("pullPolicy"), v.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

func checkDownward(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Mode(p.Child("defaultMode"), v.DownwardAPI.DefaultMode)
	for _, item := range v.DownwardAPI.Items {
		// Upstream does not say which item.
		checkDownwardFile(ps, p, &item)
	}
}

func checkDownwardFile(ps *check.Problems, p *field.Path, item *corev1.DownwardAPIVolumeFile) {
	ps.Required(p.Child("path"), item.Path)
	checkUnreserved(ps, p.Child("path"), item.Path)
	switch {
	case item.FieldRef != nil:
		checkFieldRef(ps, p.Child("fieldRef"), item.FieldRef, volumeFields)
		ps.Valid(item.ResourceFieldRef == nil,
			p, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
	case item.ResourceFieldRef != nil:
		at := p.Child("resourceFieldRef")
		if ps.Required(at.Child("containerName"), item.ResourceFieldRef.ContainerName) {
			checkResourceRef(ps, at, item.ResourceFieldRef)
		} else {
			checkDivisor(ps, at.Child("divisor"), item.ResourceFieldRef)
		}
	default:
		ps.Add(field.Required(p, "one of fieldRef and resourceFieldRef is required"))
	}
	ps.Mode(p.Child("mode"), item.Mode)
}

// checkBacksteps adds an error for a path with "..".
func checkBacksteps(ps *check.Problems, p *field.Path, name string) {
	ps.Valid(!slices.Contains(strings.Split(name, "/"), ".."), p, name, "must not contain '..'")
}

// checkDescending requires a path that stays below where it starts.
func checkDescending(ps *check.Problems, p *field.Path, name string) {
	ps.Valid(!path.IsAbs(name), p, name, "must be a relative path")
	checkBacksteps(ps, p, name)
}

// checkUnreserved adds an error for names that begin with two dots, which the node uses itself.
func checkUnreserved(ps *check.Problems, p *field.Path, name string) {
	checkDescending(ps, p, name)
	if strings.HasPrefix(name, "..") && !strings.HasPrefix(name, "../") {
		ps.Add(field.Invalid(p, name, "must not start with '..'"))
	}
}
