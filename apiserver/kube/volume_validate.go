package kube

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkVolumes checks a pod's volumes and returns the valid ones by name: only
// these can be mounted.
func checkVolumes(ps *problems, p *field.Path, volumes []corev1.Volume) map[string]*corev1.VolumeSource {
	names := map[string]*corev1.VolumeSource{}
	for i := range volumes {
		v, at := &volumes[i], p.Index(i)
		var own problems
		checkVolumeSource(&own, at, &v.VolumeSource)
		if own.required(at.Child("name"), v.Name) {
			own.dnsLabel(at.Child("name"), v.Name)
		}
		if names[v.Name] != nil {
			own.add(field.Duplicate(at.Child("name"), v.Name))
		}
		if len(own.list) == 0 {
			names[v.Name] = &v.VolumeSource
		}
		ps.all(own.list)
	}
	return names
}

// checkVolumeSource requires exactly one source and checks it.
func checkVolumeSource(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	found := false
	for _, source := range volumeSources(v) {
		if !source.set {
			continue
		}
		at := p.Child(source.path)
		if found {
			ps.add(field.Forbidden(at, "may not specify more than 1 volume type"))
			continue
		}
		found = true
		if source.check != nil {
			source.check(ps, at, v)
		}
	}
	ps.present(found, p, "must specify a volume type")
}

// volumeSource is one way to fill a volume. Those without check belong to
// storage systems that a node cannot mount by itself.
type volumeSource struct {
	path  string
	set   bool
	check func(*problems, *field.Path, *corev1.VolumeSource)
}

func volumeSources(v *corev1.VolumeSource) []volumeSource {
	return []volumeSource{
		{"emptyDir", v.EmptyDir != nil, checkEmptyDir},
		{"hostPath", v.HostPath != nil, checkHostPath},
		{"gitRepo", v.GitRepo != nil, nil},
		{"gcePersistentDisk", v.GCEPersistentDisk != nil, nil},
		{"awsElasticBlockStore", v.AWSElasticBlockStore != nil, nil},
		{"secret", v.Secret != nil, checkSecretVolume},
		{"nfs", v.NFS != nil, checkNFS},
		{"iscsi", v.ISCSI != nil, nil},
		{"glusterfs", v.Glusterfs != nil, nil},
		{"flocker", v.Flocker != nil, nil},
		{"persistentVolumeClaim", v.PersistentVolumeClaim != nil, checkClaimVolume},
		{"rbd", v.RBD != nil, nil},
		{"cinder", v.Cinder != nil, nil},
		{"cephFS", v.CephFS != nil, nil},
		{"quobyte", v.Quobyte != nil, nil},
		{"downwardAPI", v.DownwardAPI != nil, checkDownward},
		{"fc", v.FC != nil, nil},
		{"flexVolume", v.FlexVolume != nil, nil},
		{"configMap", v.ConfigMap != nil, checkConfigMapVolume},
		{"azureFile", v.AzureFile != nil, nil},
		{"vsphereVolume", v.VsphereVolume != nil, nil},
		{"photonPersistentDisk", v.PhotonPersistentDisk != nil, nil},
		{"portworxVolume", v.PortworxVolume != nil, nil},
		{"azureDisk", v.AzureDisk != nil, nil},
		{"storageos", v.StorageOS != nil, nil},
		{"projected", v.Projected != nil, checkProjected},
		{"scaleIO", v.ScaleIO != nil, nil},
		{"csi", v.CSI != nil, checkCSI},
		{"ephemeral", v.Ephemeral != nil, checkEphemeral},
		{"image", v.Image != nil, checkImageVolume},
	}
}

func checkEmptyDir(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	if limit := v.EmptyDir.SizeLimit; limit != nil && limit.Sign() < 0 {
		ps.add(field.Forbidden(p.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
	}
}

var hostPathTypes = []corev1.HostPathType{
	corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
	corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket,
}

func checkHostPath(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	if ps.required(p.Child("path"), v.HostPath.Path) {
		checkBacksteps(ps, p.Child("path"), v.HostPath.Path)
	}
	if v.HostPath.Type != nil {
		oneOf(ps, p.Child("type"), *v.HostPath.Type, hostPathTypes...)
	}
}

func checkSecretVolume(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	ps.required(p.Child("secretName"), v.Secret.SecretName)
	ps.mode(p.Child("defaultMode"), v.Secret.DefaultMode)
	checkItems(ps, p.Child("items"), v.Secret.Items)
}

func checkConfigMapVolume(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	ps.required(p.Child("name"), v.ConfigMap.Name)
	ps.mode(p.Child("defaultMode"), v.ConfigMap.DefaultMode)
	checkItems(ps, p.Child("items"), v.ConfigMap.Items)
}

// checkItems checks which keys become which files.
func checkItems(ps *problems, p *field.Path, items []corev1.KeyToPath) {
	for i, item := range items {
		at := p.Index(i)
		ps.required(at.Child("key"), item.Key)
		if ps.required(at.Child("path"), item.Path) {
			checkUnreserved(ps, at.Child("path"), item.Path)
		}
		ps.mode(at.Child("mode"), item.Mode)
	}
}

func checkNFS(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	ps.required(p.Child("server"), v.NFS.Server)
	ps.required(p.Child("path"), v.NFS.Path)
	ps.valid(path.IsAbs(v.NFS.Path), p.Child("path"), v.NFS.Path, "must be an absolute path")
}

func checkClaimVolume(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	ps.required(p.Child("claimName"), v.PersistentVolumeClaim.ClaimName)
}

func checkCSI(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	if ps.required(p.Child("driver"), v.CSI.Driver) {
		ps.subdomain(p.Child("driver"), strings.ToLower(v.CSI.Driver))
	}
	if ref := v.CSI.NodePublishSecretRef; ref != nil && ps.required(p.Child("nodePublishSecretRef", "name"), ref.Name) {
		ps.subdomain(p.Child("name"), ref.Name)
	}
}

func checkEphemeral(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	ps.present(v.Ephemeral.VolumeClaimTemplate != nil, p.Child("volumeClaimTemplate"), "")
}

func checkImageVolume(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	someOf(ps, p.Child("pullPolicy"), v.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

func checkDownward(ps *problems, p *field.Path, v *corev1.VolumeSource) {
	ps.mode(p.Child("defaultMode"), v.DownwardAPI.DefaultMode)
	for _, item := range v.DownwardAPI.Items {
		// Upstream does not say which item.
		checkDownwardFile(ps, p, &item)
	}
}

func checkDownwardFile(ps *problems, p *field.Path, item *corev1.DownwardAPIVolumeFile) {
	ps.required(p.Child("path"), item.Path)
	checkUnreserved(ps, p.Child("path"), item.Path)
	switch {
	case item.FieldRef != nil:
		checkFieldRef(ps, p.Child("fieldRef"), item.FieldRef, volumeFields)
		ps.valid(item.ResourceFieldRef == nil,
			p, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
	case item.ResourceFieldRef != nil:
		at := p.Child("resourceFieldRef")
		if ps.required(at.Child("containerName"), item.ResourceFieldRef.ContainerName) {
			checkResourceRef(ps, at, item.ResourceFieldRef)
		}
	default:
		ps.add(field.Required(p, "one of fieldRef and resourceFieldRef is required"))
	}
	ps.mode(p.Child("mode"), item.Mode)
}

// checkBacksteps refuses paths that climb.
func checkBacksteps(ps *problems, p *field.Path, name string) {
	ps.valid(!slices.Contains(strings.Split(name, "/"), ".."), p, name, "must not contain '..'")
}

// checkDescending requires a path that stays below where it starts.
func checkDescending(ps *problems, p *field.Path, name string) {
	ps.valid(!path.IsAbs(name), p, name, "must be a relative path")
	checkBacksteps(ps, p, name)
}

// checkUnreserved keeps files apart from the node's own, which begin with two dots.
func checkUnreserved(ps *problems, p *field.Path, name string) {
	checkDescending(ps, p, name)
	if strings.HasPrefix(name, "..") && !strings.HasPrefix(name, "../") {
		ps.add(field.Invalid(p, name, "must not start with '..'"))
	}
}
