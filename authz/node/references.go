package node

import (
	corev1 "k8s.io/api/core/v1"
)

// object identifies an API object; resource is a plural name below.
type object struct{ resource, namespace, name string }

// The resources that pods refer to.
const (
	attachments     = "volumeattachments"
	claims          = "persistentvolumeclaims"
	configMaps      = "configmaps"
	pods            = "pods"
	resourceClaims  = "resourceclaims"
	secrets         = "secrets"
	resourceSlices  = "resourceslices"
	serviceAccounts = "serviceaccounts"
	volumes         = "persistentvolumes"
)

// references returns the pod itself and all objects that its node needs for it. It may contain
// duplicates.
func references(p *corev1.Pod) []object {
	own := object{pods, p.Namespace, p.Name}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return []object{own}
	}
	r := collector{namespace: p.Namespace, found: []object{own}}
	r.add(serviceAccounts, p.Spec.ServiceAccountName)
	for _, s := range p.Spec.ImagePullSecrets {
		r.add(secrets, s.Name)
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		r.environment(c.EnvFrom, c.Env)
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		r.environment(c.EnvFrom, c.Env)
	}
	for i := range p.Spec.EphemeralContainers {
		c := &p.Spec.EphemeralContainers[i]
		r.environment(c.EnvFrom, c.Env)
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Ephemeral != nil {
			r.add(claims, p.Name+"-"+v.Name)
		}
		r.mounted(&v.VolumeSource)
	}
	r.resourceClaims(p)
	return r.found
}

// collector collects references within one namespace.
type collector struct {
	namespace string
	found     []object
}

func (r *collector) add(resource, name string) {
	if name != "" {
		r.found = append(r.found, object{resource, r.namespace, name})
	}
}

func (r *collector) environment(from []corev1.EnvFromSource, env []corev1.EnvVar) {
	for i := range from {
		if s := from[i].SecretRef; s != nil {
			r.add(secrets, s.Name)
		}
		if c := from[i].ConfigMapRef; c != nil {
			r.add(configMaps, c.Name)
		}
	}
	for i := range env {
		source := env[i].ValueFrom
		if source == nil {
			continue
		}
		if s := source.SecretKeyRef; s != nil {
			r.add(secrets, s.Name)
		}
		if c := source.ConfigMapKeyRef; c != nil {
			r.add(configMaps, c.Name)
		}
	}
}

// mounted adds the references of a pod's volume.
func (r *collector) mounted(v *corev1.VolumeSource) {
	switch {
	case v.Secret != nil:
		r.add(secrets, v.Secret.SecretName)
	case v.ConfigMap != nil:
		r.add(configMaps, v.ConfigMap.Name)
	case v.PersistentVolumeClaim != nil:
		r.add(claims, v.PersistentVolumeClaim.ClaimName)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				r.add(secrets, s.Secret.Name)
			}
			if s.ConfigMap != nil {
				r.add(configMaps, s.ConfigMap.Name)
			}
		}
	case v.AzureFile != nil:
		r.add(secrets, v.AzureFile.SecretName)
	case v.CephFS != nil:
		r.secret(v.CephFS.SecretRef)
	case v.Cinder != nil:
		r.secret(v.Cinder.SecretRef)
	case v.CSI != nil:
		r.secret(v.CSI.NodePublishSecretRef)
	case v.FlexVolume != nil:
		r.secret(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		r.secret(v.ISCSI.SecretRef)
	case v.RBD != nil:
		r.secret(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		r.secret(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		r.secret(v.StorageOS.SecretRef)
	}
}

func (r *collector) secret(ref *corev1.LocalObjectReference) {
	if ref != nil {
		r.add(secrets, ref.Name)
	}
}

// resourceClaims adds the claims that the pod names and the generated ones, which its status names.
func (r *collector) resourceClaims(p *corev1.Pod) {
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		if c.ResourceClaimName != nil {
			r.add(resourceClaims, *c.ResourceClaimName)
			continue
		}
		for j := range p.Status.ResourceClaimStatuses {
			s := &p.Status.ResourceClaimStatuses[j]
			if s.Name == c.Name && s.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil {
				r.add(resourceClaims, *s.ResourceClaimName)
			}
		}
	}
	if extended := p.Status.ExtendedResourceClaimStatus; extended != nil {
		r.add(resourceClaims, extended.ResourceClaimName)
	}
}

// bound returns the claim that a volume is bound to or reserved for, and what the claim's nodes may
// read because of it: the volume and its secrets, except those that only the storage system's
// controller needs.
func bound(v *corev1.PersistentVolume) (claim object, opens []object, ok bool) {
	ref := v.Spec.ClaimRef
	if ref == nil {
		return object{}, nil, false
	}
	opens = []object{{volumes, "", v.Name}}
	add := func(namespace, name string) {
		if name != "" {
			opens = append(opens, object{secrets, namespace, name})
		}
	}
	// reference adds a secret; without a namespace it is in that of the claim.
	reference := func(s *corev1.SecretReference) {
		if s != nil && s.Namespace != "" {
			add(s.Namespace, s.Name)
		} else if s != nil {
			add(ref.Namespace, s.Name)
		}
	}
	source := &v.Spec.PersistentVolumeSource
	switch {
	case source.CSI != nil:
		for _, s := range []*corev1.SecretReference{
			source.CSI.NodePublishSecretRef, source.CSI.NodeStageSecretRef, source.CSI.NodeExpandSecretRef,
		} {
			if s != nil {
				add(s.Namespace, s.Name)
			}
		}
	case source.AzureFile != nil:
		namespace := ref.Namespace
		if n := source.AzureFile.SecretNamespace; n != nil && *n != "" {
			namespace = *n
		}
		add(namespace, source.AzureFile.SecretName)
	case source.StorageOS != nil:
		if s := source.StorageOS.SecretRef; s != nil {
			add(s.Namespace, s.Name)
		}
	case source.Cinder != nil:
		if s := source.Cinder.SecretRef; s != nil {
			add(s.Namespace, s.Name)
		}
	case source.CephFS != nil:
		reference(source.CephFS.SecretRef)
	case source.FlexVolume != nil:
		reference(source.FlexVolume.SecretRef)
	case source.ISCSI != nil:
		reference(source.ISCSI.SecretRef)
	case source.RBD != nil:
		reference(source.RBD.SecretRef)
	case source.ScaleIO != nil:
		reference(source.ScaleIO.SecretRef)
	}
	return object{claims, ref.Namespace, ref.Name}, opens, true
}
