package podspec

import (
	"net"
	"reflect"
	"regexp"
	"strings"
	"unicode"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkedAs has the volumes whose errors have another path, as in Kubernetes.
var checkedAs = map[string]string{"gcePersistentDisk": "persistentDisk", "cephFS": "cephfs"}

// A sourceCheck checks a volume of a storage system. Many are accepted that no node can mount any more.
type sourceCheck = func(*check.Problems, *field.Path, *corev1.VolumeSource)

// needs returns the check of a volume that has required fields alone. Values alternate with names.
func needs(values func(v *corev1.VolumeSource) []string) sourceCheck {
	return func(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) { requireAll(ps, p, values(v)...) }
}

// requireAll requires values, each of which follows the name of its field.
func requireAll(ps *check.Problems, p *field.Path, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		ps.Required(p.Child(pairs[i]), pairs[i+1])
	}
}

var (
	checkGlusterfs = needs(func(v *corev1.VolumeSource) []string {
		return []string{"endpoints", v.Glusterfs.EndpointsName, "path", v.Glusterfs.Path}
	})
	checkRBD = needs(func(v *corev1.VolumeSource) []string {
		return []string{"monitors", some(len(v.RBD.CephMonitors)), "image", v.RBD.RBDImage}
	})
	checkCephFS = needs(func(v *corev1.VolumeSource) []string {
		return []string{"monitors", some(len(v.CephFS.Monitors))}
	})
	checkAzureFile = needs(func(v *corev1.VolumeSource) []string {
		return []string{"secretName", v.AzureFile.SecretName, "shareName", v.AzureFile.ShareName}
	})
	checkVsphere  = needs(func(v *corev1.VolumeSource) []string { return []string{"volumePath", v.VsphereVolume.VolumePath} })
	checkPhoton   = needs(func(v *corev1.VolumeSource) []string { return []string{"pdID", v.PhotonPersistentDisk.PdID} })
	checkPortworx = needs(func(v *corev1.VolumeSource) []string { return []string{"volumeID", v.PortworxVolume.VolumeID} })
	checkScaleIO  = needs(func(v *corev1.VolumeSource) []string {
		return []string{"gateway", v.ScaleIO.Gateway, "system", v.ScaleIO.System, "volumeName", v.ScaleIO.VolumeName}
	})
)

// some returns a text that is empty if n is zero.
func some(n int) string { return strings.Repeat("x", min(n, 1)) }

func checkGitRepo(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Required(p.Child("repository"), v.GitRepo.Repository)
	checkDescending(ps, p.Child("directory"), v.GitRepo.Directory)
}

// checkPartition checks the number of a partition. As in Kubernetes, 0 is right, whatever the message says.
func checkPartition(ps *check.Problems, p *field.Path, n int32) {
	ps.Valid(n >= 0 && n <= 255, p.Child("partition"), n, validation.InclusiveRangeError(1, 255))
}

func checkGCE(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Required(p.Child("pdName"), v.GCEPersistentDisk.PDName)
	checkPartition(ps, p, v.GCEPersistentDisk.Partition)
}

func checkAWS(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Required(p.Child("volumeID"), v.AWSElasticBlockStore.VolumeID)
	checkPartition(ps, p, v.AWSElasticBlockStore.Partition)
}

func checkFlocker(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	name, id := v.Flocker.DatasetName, v.Flocker.DatasetUUID
	ps.Present(name != "" || id != "", p, "one of datasetName and datasetUUID is required")
	ps.Valid(name == "" || id == "", p, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	ps.Valid(!strings.Contains(name, "/"), p.Child("datasetName"), name, "must not contain '/'")
}

func checkCinder(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Required(p.Child("volumeID"), v.Cinder.VolumeID)
	checkSecretRef(ps, p, v.Cinder.SecretRef)
}

func checkSecretRef(ps *check.Problems, p *field.Path, ref *corev1.LocalObjectReference) {
	if ref != nil {
		ps.Required(p.Child("secretRef", "name"), ref.Name)
	}
}

func checkQuobyte(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	const pairs, longest = "must be a host:port pair or multiple pairs separated by commas", 64
	switch q := v.Quobyte; {
	case q.Registry == "":
		ps.Add(field.Required(p.Child("registry"), pairs))
	case len(q.Tenant) > longest:
		ps.Add(field.Required(p.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		at := p.Child("registry")
		for pair := range strings.SplitSeq(q.Registry, ",") {
			_, _, err := net.SplitHostPort(pair)
			ps.Valid(err == nil, at, q.Registry, pairs)
		}
	}
	ps.Required(p.Child("volume"), v.Quobyte.Volume)
}

func checkFC(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	names, ids, lun := v.FC.TargetWWNs, v.FC.WWIDs, v.FC.Lun
	ps.Present(len(names) > 0 || len(ids) > 0, p.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")
	ps.Valid(len(names) == 0 || len(ids) == 0, p.Child("targetWWNs"), names, "targetWWNs and wwids can not be specified simultaneously")
	if len(names) > 0 {
		ps.Present(lun != nil, p.Child("lun"), "lun is required if targetWWNs is specified")
		ps.Valid(lun == nil || *lun >= 0 && *lun <= 255, p.Child("lun"), lun, validation.InclusiveRangeError(0, 255))
	}
}

func checkFlex(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Required(p.Child("driver"), v.FlexVolume.Driver)
	for _, key := range check.SortedKeys(v.FlexVolume.Options) {
		namespace, _, _ := strings.Cut(key, "/")
		domain := "." + strings.ToLower(namespace)
		ps.Valid(!strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasSuffix(domain, ".k8s.io"),
			p.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved")
	}
}

func checkStorageOS(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	s := v.StorageOS
	if ps.Required(p.Child("volumeName"), s.VolumeName) {
		ps.DNSLabel(p.Child("volumeName"), s.VolumeName)
	}
	if s.VolumeNamespace != "" {
		ps.DNSLabel(p.Child("volumeNamespace"), s.VolumeNamespace)
	}
	checkSecretRef(ps, p, s.SecretRef)
}

func checkAzureDisk(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	d := v.AzureDisk
	requireAll(ps, p, "diskName", d.DiskName, "diskURI", d.DataDiskURI)
	if d.CachingMode != nil {
		check.OneOf(ps, p.Child("cachingMode"), *d.CachingMode, corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	}
	if d.Kind == nil {
		return
	}
	check.OneOf(ps, p.Child("kind"), *d.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)
	start, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *d.Kind == corev1.AzureManagedDisk {
		start, form = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(d.DataDiskURI, start) {
		check.OneOf(ps, p.Child("diskURI"), d.DataDiskURI, form)
	}
}

// initiators are the forms of the name of an iSCSI target or initiator, by how it begins.
var initiators = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

// wrongInitiator is the message about a name that begins in another way.
const wrongInitiator = "must be valid format starting with iqn, eui, or naa"

// longestTarget is how long the name of a volume and the portal of its target may be together.
const (
	longestTarget = 64
	longTarget    = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."
)

func checkInitiator(ps *check.Problems, p *field.Path, name, wrong string) {
	form := initiators[name[:min(len(name), 3)]]
	ps.Valid(form != nil, p, name, wrong)
	ps.Valid(form == nil || form.MatchString(name), p, name, "must be valid format")
}

func checkISCSI(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	checkTarget(ps, p, v.ISCSI, wrongInitiator)
}

func checkTarget(ps *check.Problems, p *field.Path, v *corev1.ISCSIVolumeSource, wrong string) {
	ps.Required(p.Child("targetPortal"), v.TargetPortal)
	if ps.Required(p.Child("iqn"), v.IQN) {
		checkInitiator(ps, p.Child("iqn"), v.IQN, wrong)
	}
	ps.Valid(v.Lun >= 0 && v.Lun <= 255, p.Child("lun"), v.Lun, validation.InclusiveRangeError(0, 255))
	ps.Present(!v.DiscoveryCHAPAuth && !v.SessionCHAPAuth || v.SecretRef != nil, p.Child("secretRef"), "")
	if v.InitiatorName != nil {
		checkInitiator(ps, p.Child("initiatorname"), *v.InitiatorName, wrong)
	}
}

// checkEphemeral checks a claim that is made for a pod. Its template has annotations and labels alone.
func checkEphemeral(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	at, t := p.Child("volumeClaimTemplate"), v.Ephemeral.VolumeClaimTemplate
	if t == nil {
		ps.Add(field.Required(at, ""))
		return
	}
	ps.All(apivalidation.ValidateAnnotations(t.Annotations, at.Child("metadata", "annotations")))
	ps.Labels(at.Child("metadata", "labels"), t.Labels)
	others := t.ObjectMeta
	others.Annotations, others.Labels = nil, nil
	for field, value := range reflect.ValueOf(others).Fields() {
		if !value.IsZero() {
			name := []rune(field.Name)
			name[0] = unicode.ToLower(name[0])
			ps.Allowed(false, at.Child("metadata", string(name)), "cannot be set")
		}
	}
	CheckClaim(ps, at.Child("spec"), &t.Spec)
}

// podSource returns the volume of a pod that is like a persistent one. It lacks the namespaces of secrets.
func podSource(s *corev1.PersistentVolumeSource) *corev1.VolumeSource {
	v := &corev1.VolumeSource{
		GCEPersistentDisk: s.GCEPersistentDisk, AWSElasticBlockStore: s.AWSElasticBlockStore, Flocker: s.Flocker, Quobyte: s.Quobyte, FC: s.FC,
		VsphereVolume: s.VsphereVolume, PhotonPersistentDisk: s.PhotonPersistentDisk, PortworxVolume: s.PortworxVolume, AzureDisk: s.AzureDisk,
		HostPath: s.HostPath, NFS: s.NFS,
	}
	if s.Glusterfs != nil {
		v.Glusterfs = &corev1.GlusterfsVolumeSource{EndpointsName: s.Glusterfs.EndpointsName, Path: s.Glusterfs.Path}
	}
	if s.RBD != nil {
		v.RBD = &corev1.RBDVolumeSource{CephMonitors: s.RBD.CephMonitors, RBDImage: s.RBD.RBDImage}
	}
	if s.CephFS != nil {
		v.CephFS = &corev1.CephFSVolumeSource{Monitors: s.CephFS.Monitors}
	}
	if s.Cinder != nil {
		v.Cinder = &corev1.CinderVolumeSource{VolumeID: s.Cinder.VolumeID}
	}
	if s.FlexVolume != nil {
		v.FlexVolume = &corev1.FlexVolumeSource{Driver: s.FlexVolume.Driver, Options: s.FlexVolume.Options}
	}
	if s.AzureFile != nil {
		v.AzureFile = &corev1.AzureFileVolumeSource{SecretName: s.AzureFile.SecretName, ShareName: s.AzureFile.ShareName}
	}
	if s.ScaleIO != nil {
		v.ScaleIO = &corev1.ScaleIOVolumeSource{Gateway: s.ScaleIO.Gateway, System: s.ScaleIO.System, VolumeName: s.ScaleIO.VolumeName}
	}
	if s.StorageOS != nil {
		v.StorageOS = &corev1.StorageOSVolumeSource{VolumeName: s.StorageOS.VolumeName, VolumeNamespace: s.StorageOS.VolumeNamespace}
	}
	return v
}

// like returns the check of a persistent volume that is checked as a pod's.
func like(of sourceCheck) func(*check.Problems, *field.Path, *corev1.PersistentVolumeSpec) {
	return func(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
		of(ps, p, podSource(&spec.PersistentVolumeSource))
	}
}

func checkPersistentISCSI(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	s := spec.ISCSI
	target := &corev1.ISCSIVolumeSource{TargetPortal: s.TargetPortal, IQN: s.IQN, Lun: s.Lun, DiscoveryCHAPAuth: s.DiscoveryCHAPAuth,
		SessionCHAPAuth: s.SessionCHAPAuth, InitiatorName: s.InitiatorName}
	if s.SecretRef != nil {
		target.SecretRef = &corev1.LocalObjectReference{Name: s.SecretRef.Name}
	}
	checkTarget(ps, p, target, "must be valid format")
	checkSecretRef(ps, p, target.SecretRef)
}

func checkPersistentGlusterfs(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	checkGlusterfs(ps, p, podSource(&spec.PersistentVolumeSource))
	at, namespace := p.Child("endpointsNamespace"), spec.Glusterfs.EndpointsNamespace
	switch {
	case namespace == nil:
	case *namespace == "":
		ps.Add(field.Invalid(at, "", "if the endpointnamespace is set, it must be a valid namespace name"))
	default:
		ps.DNSLabel(at, *namespace)
	}
}

func checkPersistentAzureFile(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
	checkAzureFile(ps, p, podSource(&spec.PersistentVolumeSource))
	ps.Present(spec.AzureFile.SecretNamespace == nil || *spec.AzureFile.SecretNamespace != "", p.Child("secretNamespace"), "")
}

// named adds to a check that of a secret with its namespace.
func named(of sourceCheck, secret func(*corev1.PersistentVolumeSpec) (name, namespace string, ok bool)) func(*check.Problems, *field.Path, *corev1.PersistentVolumeSpec) {
	return func(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeSpec) {
		of(ps, p, podSource(&spec.PersistentVolumeSource))
		if name, namespace, ok := secret(spec); ok {
			requireAll(ps, p.Child("secretRef"), "name", name, "namespace", namespace)
		}
	}
}

func cinderSecret(spec *corev1.PersistentVolumeSpec) (name, namespace string, ok bool) {
	if s := spec.Cinder.SecretRef; s != nil {
		return s.Name, s.Namespace, true
	}
	return "", "", false
}

func storageOSSecret(spec *corev1.PersistentVolumeSpec) (name, namespace string, ok bool) {
	if s := spec.StorageOS.SecretRef; s != nil {
		return s.Name, s.Namespace, true
	}
	return "", "", false
}
