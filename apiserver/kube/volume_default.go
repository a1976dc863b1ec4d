package kube

import corev1 "k8s.io/api/core/v1"

// tokenSeconds is how long a projected service account token lives by default.
const tokenSeconds = 60 * 60

// defaultVolume completes a volume. One without a source is an emptyDir.
func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	switch {
	case v.HostPath != nil:
		setIfNil(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Secret != nil:
		setIfNil(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil:
		setIfNil(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		setIfNil(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.DownwardAPI.Items)
	case v.Projected != nil:
		defaultProjected(v.Projected)
	case v.Image != nil:
		if v.Image.PullPolicy == "" {
			v.Image.PullPolicy = pullPolicy(v.Image.Reference)
		}
	case v.Ephemeral != nil:
		if t := v.Ephemeral.VolumeClaimTemplate; t != nil {
			setIfNil(&t.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
			roundUp(t.Spec.Resources.Limits)
			roundUp(t.Spec.Resources.Requests)
		}
	}
	defaultNetworkVolume(&v.VolumeSource)
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	setIfNil(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		if d := p.Sources[i].DownwardAPI; d != nil {
			defaultDownward(d.Items)
		}
		if t := p.Sources[i].ServiceAccountToken; t != nil {
			setIfNil(&t.ExpirationSeconds, tokenSeconds)
		}
	}
}

// defaultNetworkVolume completes the volumes of storage systems.
func defaultNetworkVolume(v *corev1.VolumeSource) {
	switch {
	case v.ISCSI != nil:
		setIfEmpty(&v.ISCSI.ISCSIInterface, "default")
	case v.RBD != nil:
		setIfEmpty(&v.RBD.RBDPool, "rbd")
		setIfEmpty(&v.RBD.RadosUser, "admin")
		setIfEmpty(&v.RBD.Keyring, "/etc/ceph/keyring")
	case v.AzureDisk != nil:
		setIfNil(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setIfNil(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
		setIfNil(&v.AzureDisk.FSType, "ext4")
		setIfNil(&v.AzureDisk.ReadOnly, false)
	case v.ScaleIO != nil:
		setIfEmpty(&v.ScaleIO.StorageMode, "ThinProvisioned")
		setIfEmpty(&v.ScaleIO.FSType, "xfs")
	}
}
