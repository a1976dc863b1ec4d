// Package podreference finds the API objects that a pod refers to. A static pod may refer to none,
// because its node must be able to run it without the API server, and neither may its mirror pod,
// because the node would get access to the objects.
package podreference

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Find returns the kind of an object that a pod refers to, in Kubernetes' words; empty if there is
// none. An unknown volume is an error.
func Find(pod *corev1.Pod) (string, error) {
	spec := &pod.Spec
	if spec.ServiceAccountName != "" {
		return "serviceaccounts", nil
	}
	u := needs(spec)
	if len(spec.ImagePullSecrets) > 0 || u.secrets {
		return "secrets", nil
	}
	if u.configMaps {
		return "configmaps", nil
	}
	if len(spec.ResourceClaims) > 0 {
		return "resourceclaims", nil
	}
	for i := range spec.Volumes {
		if by, err := mounted(&spec.Volumes[i]); by != "" || err != nil {
			return by, err
		}
	}
	return "", nil
}

// uses records which kinds of objects containers and volumes refer to.
type uses struct{ secrets, configMaps bool }

func needs(spec *corev1.PodSpec) uses {
	var u uses
	add := func(from []corev1.EnvFromSource, env []corev1.EnvVar) {
		for i := range from {
			u.secrets = u.secrets || from[i].SecretRef != nil
			u.configMaps = u.configMaps || from[i].ConfigMapRef != nil
		}
		for i := range env {
			if v := env[i].ValueFrom; v != nil {
				u.secrets = u.secrets || v.SecretKeyRef != nil
				u.configMaps = u.configMaps || v.ConfigMapKeyRef != nil
			}
		}
	}
	for i := range spec.InitContainers {
		add(spec.InitContainers[i].EnvFrom, spec.InitContainers[i].Env)
	}
	for i := range spec.Containers {
		add(spec.Containers[i].EnvFrom, spec.Containers[i].Env)
	}
	for i := range spec.EphemeralContainers {
		add(spec.EphemeralContainers[i].EnvFrom, spec.EphemeralContainers[i].Env)
	}
	for i := range spec.Volumes {
		u.volume(&spec.Volumes[i])
	}
	return u
}

func (u *uses) volume(v *corev1.Volume) {
	switch {
	case v.Secret != nil, v.AzureFile != nil,
		v.CephFS != nil && v.CephFS.SecretRef != nil,
		v.Cinder != nil && v.Cinder.SecretRef != nil,
		v.CSI != nil && v.CSI.NodePublishSecretRef != nil,
		v.FlexVolume != nil && v.FlexVolume.SecretRef != nil,
		v.ISCSI != nil && v.ISCSI.SecretRef != nil,
		v.RBD != nil && v.RBD.SecretRef != nil,
		v.ScaleIO != nil && v.ScaleIO.SecretRef != nil,
		v.StorageOS != nil && v.StorageOS.SecretRef != nil:
		u.secrets = true
	case v.ConfigMap != nil:
		u.configMaps = true
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			u.secrets = u.secrets || v.Projected.Sources[i].Secret != nil
			u.configMaps = u.configMaps || v.Projected.Sources[i].ConfigMap != nil
		}
	}
}

// mounted returns what a volume refers to besides secrets and config maps.
func mounted(v *corev1.Volume) (string, error) {
	switch {
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.Projected != nil:
		return projected(v)
	case v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.CephFS != nil, v.Cinder != nil, v.DownwardAPI != nil,
		v.EmptyDir != nil, v.FC != nil, v.FlexVolume != nil, v.Flocker != nil, v.GCEPersistentDisk != nil,
		v.GitRepo != nil, v.HostPath != nil, v.Image != nil, v.ISCSI != nil, v.NFS != nil, v.PhotonPersistentDisk != nil,
		v.PortworxVolume != nil, v.Quobyte != nil, v.RBD != nil, v.ScaleIO != nil, v.StorageOS != nil, v.VsphereVolume != nil:
		return "", nil
	}
	return "", fmt.Errorf("unknown volume type for volume  %q", v.Name)
}

func projected(v *corev1.Volume) (string, error) {
	for i := range v.Projected.Sources {
		s := &v.Projected.Sources[i]
		switch {
		case s.ServiceAccountToken != nil:
			return "serviceaccounts (via projected volumes)", nil
		case s.ClusterTrustBundle != nil:
			return "clustertrustbundles", nil
		case s.PodCertificate != nil:
			return "podcertificates", nil
		case s.DownwardAPI == nil:
			return "", fmt.Errorf("unknown source for projected volume %q", v.Name)
		}
	}
	return "", nil
}
