package unsupported

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pending is the effect of a constraint that the scheduler does not support.
const pending = "not supported yet: the pod stays Pending"

// podFields are the fields of pods except those of containers.
func podFields() []Row {
	return []Row{
		{In: Pods, Path: "volumes[]", When: func(value any, _ []any) bool { return unmountable(value.(corev1.Volume)) },
			Effect: "no node mounts this kind of volume yet: the pod does not start (emptyDir, hostPath, configMap, secret, downwardAPI, projected, image, persistentVolumeClaim and ephemeral work)"},
		{In: Pods, Path: "volumes[].emptyDir.medium", When: hugePages, Effect: "not supported yet: the pod does not start"},
		{In: Pods, Path: "volumes[].projected.sources[].podCertificate", Effect: "not supported yet: the pod does not start"},
		{In: Pods, Path: "resourceClaims", Effect: pending},
		{In: Pods, Path: "schedulingGroup", Effect: pending},
		{In: Pods, Path: "subdomain", Effect: "written to /etc/hosts of the pod; these nodes have no DNS that would know it"},
		{In: Pods, Path: "os.name", When: isNot(corev1.Linux), Effect: "nodes run Linux containers only, and refuse the pod"},
		{In: Pods, Path: "securityContext.seLinuxChangePolicy", Effect: "volumes are not labelled for SELinux yet"},
		{In: Pods, Path: "securityContext.windowsOptions", Effect: "nodes run Linux containers only"},
	}
}

// unmountable reports whether no node can mount a volume.
func unmountable(v corev1.Volume) bool {
	return v.HostPath == nil && v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil &&
		v.PersistentVolumeClaim == nil && v.Ephemeral == nil && v.Image == nil
}

// hugePages reports whether an emptyDir requests huge pages of any size.
func hugePages(value any, _ []any) bool {
	return strings.HasPrefix(string(value.(corev1.StorageMedium)), string(corev1.StorageMediumHugePages))
}

// containerFields are the fields of containers and init containers.
func containerFields() []Row {
	return []Row{
		{In: Pods, Path: "containers[].lifecycle.stopSignal",
			Effect: "a runtime that does not know it (containerd before 2.2) sends the signal of the image, or SIGTERM"},
		{In: Pods, Path: "containers[].ports[].hostPort", When: mapped,
			Effect: "the scheduler reserves it; nodes on the in-process runtime do not forward from it to the pod (those on containerd do)"},
		{In: Pods, Path: "containers[].resources.claims", Effect: pending},
		{In: Pods, Path: "containers[].volumeDevices", Effect: "block devices are not passed to containers yet"},
		{In: Pods, Path: "containers[].securityContext.windowsOptions", Effect: "nodes run Linux containers only"},
	}
}

// mapped reports whether a host port would have to be forwarded. In the host's network the
// container itself listens on it.
func mapped(_ any, parents []any) bool {
	for _, p := range parents {
		if spec, ok := p.(*corev1.PodSpec); ok {
			return !spec.HostNetwork
		}
	}
	return true
}
