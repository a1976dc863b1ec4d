package serviceaccount

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// The volume with a pod's credentials, as in Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-token-volume).
const (
	// TokenMountPath is where clients in a pod find their credentials.
	TokenMountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// RootCAConfigMap is the config map with the API server's authority in every namespace.
	RootCAConfigMap = "kube-root-ca.crt"

	volumePrefix = "kube-api-access-"
	volumeRandom = 5
	// tokenSeconds is an hour and seven seconds, which distinguishes these tokens from ones that
	// were requested for an hour.
	tokenSeconds = 60*60 + 7
)

// automount reports whether the pod wants the credentials. The pod takes precedence over its
// account.
func automount(pod *corev1.Pod, account *corev1.ServiceAccount) bool {
	for _, wish := range []*bool{pod.Spec.AutomountServiceAccountToken, account.AutomountServiceAccountToken} {
		if wish != nil {
			return *wish
		}
	}
	return true
}

// mountCredentials mounts the volume into all containers of pod, except those that have another
// mount in its place. An existing volume, from an earlier admission, is reused.
func mountCredentials(pod *corev1.Pod) {
	name, found := "", false
	for _, v := range pod.Spec.Volumes {
		if found = strings.HasPrefix(v.Name, volumePrefix); found {
			name = v.Name
			break
		}
	}
	if !found {
		name = freeName(pod)
	}
	mounted := mountInto(pod.Spec.InitContainers, name)
	mounted = mountInto(pod.Spec.Containers, name) || mounted
	if mounted && !found {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: credentials()}})
	}
}

func freeName(pod *corev1.Pod) string {
	for {
		name := volumePrefix + rand.String(volumeRandom)
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }) {
			return name
		}
	}
}

// mountInto reports whether the volume was mounted into a container.
func mountInto(containers []corev1.Container, volume string) bool {
	mounted := false
	for i := range containers {
		c := &containers[i]
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == TokenMountPath }) {
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: TokenMountPath})
		mounted = true
	}
	return mounted
}

// credentials returns a token bound to the pod, the authority of the API server's certificate, and
// the namespace.
func credentials() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: new(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(tokenSeconds))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: RootCAConfigMap},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}
}
