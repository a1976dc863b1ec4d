package podsecurity

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostPaths forbids volumes with files of the node.
func hostPaths(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	var volumes []string
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.HostPath != nil {
			volumes = append(volumes, v.Name)
		}
	}
	if len(volumes) == 0 {
		return nil
	}
	return &Violation{"hostPath volumes", named("volume", volumes)}
}

// volumeTypes forbids all but the types of volumes that give no access to the node or to other systems.
func volumeTypes(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	var volumes, kinds []string
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if !safeVolume(&v.VolumeSource) {
			volumes, kinds = append(volumes, v.Name), append(kinds, volumeType(&v.VolumeSource))
		}
	}
	if len(volumes) == 0 {
		return nil
	}
	return &Violation{"restricted volume types", named("volume", volumes) + " " + uses(len(volumes)) + " " +
		named("restricted volume type", unique(kinds))}
}

func safeVolume(v *corev1.VolumeSource) bool {
	return v.ConfigMap != nil || v.CSI != nil || v.DownwardAPI != nil || v.EmptyDir != nil || v.Ephemeral != nil ||
		v.Image != nil || v.PersistentVolumeClaim != nil || v.Projected != nil || v.Secret != nil
}

// volumeType returns the field of a forbidden source. If several are set, the first of the list counts.
func volumeType(v *corev1.VolumeSource) string {
	for _, source := range []struct {
		set  bool
		name string
	}{
		{v.HostPath != nil, "hostPath"},
		{v.GCEPersistentDisk != nil, "gcePersistentDisk"},
		{v.AWSElasticBlockStore != nil, "awsElasticBlockStore"},
		{v.GitRepo != nil, "gitRepo"},
		{v.NFS != nil, "nfs"},
		{v.ISCSI != nil, "iscsi"},
		{v.Glusterfs != nil, "glusterfs"},
		{v.RBD != nil, "rbd"},
		{v.FlexVolume != nil, "flexVolume"},
		{v.Cinder != nil, "cinder"},
		{v.CephFS != nil, "cephfs"},
		{v.Flocker != nil, "flocker"},
		{v.FC != nil, "fc"},
		{v.AzureFile != nil, "azureFile"},
		{v.VsphereVolume != nil, "vsphereVolume"},
		{v.Quobyte != nil, "quobyte"},
		{v.AzureDisk != nil, "azureDisk"},
		{v.PhotonPersistentDisk != nil, "photonPersistentDisk"},
		{v.PortworxVolume != nil, "portworxVolume"},
		{v.ScaleIO != nil, "scaleIO"},
		{v.StorageOS != nil, "storageos"},
	} {
		if source.set {
			return source.name
		}
	}
	return "unknown"
}
