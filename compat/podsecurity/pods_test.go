package podsecurity

import (
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maker makes random pods whose fields have the values that matter to the checks, and a few others.
type maker struct{ *rand.Rand }

// rarely is true for one of n.
func (m maker) rarely(n int) bool { return m.IntN(n) == 0 }

func (m maker) one(of ...string) string { return of[m.IntN(len(of))] }

// maybe returns nil, or else a pointer to one of the values.
func maybe[T any](m maker, values ...T) *T {
	i := m.IntN(len(values) + 1)
	if i == len(values) {
		return nil
	}
	return &values[i]
}

func (m maker) pod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("p", m.IntN(100)), Annotations: m.annotations()}}
	s := &p.Spec
	for range m.IntN(3) {
		s.InitContainers = append(s.InitContainers, m.container())
	}
	for range 1 + m.IntN(2) {
		s.Containers = append(s.Containers, m.container())
	}
	if m.rarely(4) {
		c := m.container()
		s.EphemeralContainers = append(s.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(c)})
	}
	s.HostNetwork, s.HostPID, s.HostIPC = m.rarely(20), m.rarely(20), m.rarely(20)
	if m.rarely(4) {
		s.HostUsers = maybe(m, true, false)
	}
	if m.rarely(3) {
		s.OS = &corev1.PodOS{Name: corev1.OSName(m.one("linux", "windows", ""))}
	}
	if !m.rarely(4) {
		s.SecurityContext = m.podContext()
	}
	for range m.IntN(3) {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: m.one("a", "b", "c"), VolumeSource: m.volume()})
	}
	if m.rarely(10) {
		s.RuntimeClassName = maybe(m, "vm", "other", "")
	}
	return p
}

func (m maker) annotations() map[string]string {
	all := map[string]string{}
	for range m.IntN(3) * m.IntN(2) {
		key := m.one("container.apparmor.security.beta.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/") + m.one("a", "b", "c")
		if m.rarely(3) {
			key = "seccomp.security.alpha.kubernetes.io/pod"
		}
		all[key] = m.one("runtime/default", "docker/default", "localhost/x", "unconfined", "", `quo"ted`)
	}
	return all
}

func (m maker) podContext() *corev1.PodSecurityContext {
	c := &corev1.PodSecurityContext{
		RunAsNonRoot: maybe(m, true, true, true, false), RunAsUser: maybe(m, int64(0), 1, 1000, 1000),
		SeccompProfile: m.seccomp(), AppArmorProfile: m.appArmor(), SELinuxOptions: m.seLinux(), WindowsOptions: m.windows(),
	}
	for range m.IntN(4) {
		c.Sysctls = append(c.Sysctls, corev1.Sysctl{Name: m.one("kernel.shm_rmid_forced", "net.ipv4.ip_local_reserved_ports",
			"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem", "net.ipv4.tcp_keepalive_time",
			"net.ipv4.ping_group_range", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.ip_unprivileged_port_start",
			"net.ipv4.ip_local_port_range", "kernel.msgmax")})
	}
	return c
}

func (m maker) seccomp() *corev1.SeccompProfile {
	t := maybe(m, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeUnconfined, "")
	if t == nil {
		return nil
	}
	return &corev1.SeccompProfile{Type: *t}
}

func (m maker) appArmor() *corev1.AppArmorProfile {
	if !m.rarely(4) {
		return nil
	}
	return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileType(m.one("RuntimeDefault", "Localhost", "Unconfined", ""))}
}

func (m maker) seLinux() *corev1.SELinuxOptions {
	if !m.rarely(4) {
		return nil
	}
	return &corev1.SELinuxOptions{
		Type: m.one("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t", "spc_t", "other"),
		User: m.one("", "", "", "u"), Role: m.one("", "", "", "r"), Level: m.one("", "s0"),
	}
}

func (m maker) windows() *corev1.WindowsSecurityContextOptions {
	if !m.rarely(6) {
		return nil
	}
	return &corev1.WindowsSecurityContextOptions{HostProcess: maybe(m, true, false)}
}

func (m maker) container() corev1.Container {
	c := corev1.Container{Name: m.one("a", "b", "c", `quo"ted`), Image: m.one("x", "y")}
	if !m.rarely(4) {
		s := &corev1.SecurityContext{
			AllowPrivilegeEscalation: maybe(m, false, false, false, true), RunAsNonRoot: maybe(m, true, true, false),
			SeccompProfile: m.seccomp(), AppArmorProfile: m.appArmor(), SELinuxOptions: m.seLinux(), WindowsOptions: m.windows(),
		}
		if m.rarely(4) {
			s.Privileged, s.RunAsUser = maybe(m, true, false), maybe(m, int64(0), 1)
			s.ProcMount = maybe(m, corev1.DefaultProcMount, corev1.UnmaskedProcMount, "")
		}
		if !m.rarely(4) {
			s.Capabilities = &corev1.Capabilities{}
			for range m.IntN(3) {
				s.Capabilities.Drop = append(s.Capabilities.Drop, corev1.Capability(m.one("ALL", "ALL", "NET_RAW", "all")))
			}
			for range m.IntN(3) * m.IntN(2) {
				s.Capabilities.Add = append(s.Capabilities.Add, corev1.Capability(m.one("NET_BIND_SERVICE", "CHOWN", "SYS_ADMIN", "NET_RAW", "ALL", "chown")))
			}
		}
		c.SecurityContext = s
	}
	if m.rarely(6) {
		for range m.IntN(3) {
			c.Ports = append(c.Ports, corev1.ContainerPort{HostPort: []int32{0, 80, 443, 8080, 9}[m.IntN(5)], ContainerPort: 1})
		}
	}
	if m.rarely(6) {
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = m.probe(), m.probe(), m.probe()
		c.Lifecycle = &corev1.Lifecycle{PostStart: (*corev1.LifecycleHandler)(m.handler()), PreStop: (*corev1.LifecycleHandler)(m.handler())}
	}
	return c
}

func (m maker) probe() *corev1.Probe {
	if m.rarely(2) {
		return nil
	}
	h := m.handler()
	if h == nil {
		return &corev1.Probe{}
	}
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket}}
}

func (m maker) handler() *corev1.LifecycleHandler {
	switch host := m.one("", "", "", "localhost", "example.com"); m.IntN(4) {
	case 0:
		return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: host, Port: intstr.FromInt32(1)}}
	case 1:
		return &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: host, Port: intstr.FromInt32(1)}}
	case 2:
		return &corev1.LifecycleHandler{}
	}
	return nil
}

func (m maker) volume() corev1.VolumeSource {
	var v corev1.VolumeSource
	for _, set := range []func(){
		func() { v.EmptyDir = &corev1.EmptyDirVolumeSource{} }, func() { v.ConfigMap = &corev1.ConfigMapVolumeSource{} },
		func() { v.CSI = &corev1.CSIVolumeSource{} }, func() { v.DownwardAPI = &corev1.DownwardAPIVolumeSource{} },
		func() { v.Ephemeral = &corev1.EphemeralVolumeSource{} }, func() { v.Image = &corev1.ImageVolumeSource{} },
		func() { v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{} },
		func() { v.Projected = &corev1.ProjectedVolumeSource{} }, func() { v.Secret = &corev1.SecretVolumeSource{} },
		func() { v.HostPath = &corev1.HostPathVolumeSource{} }, func() { v.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{} },
		func() { v.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{} }, func() { v.GitRepo = &corev1.GitRepoVolumeSource{} },
		func() { v.NFS = &corev1.NFSVolumeSource{} }, func() { v.ISCSI = &corev1.ISCSIVolumeSource{} },
		func() { v.Glusterfs = &corev1.GlusterfsVolumeSource{} }, func() { v.RBD = &corev1.RBDVolumeSource{} },
		func() { v.FlexVolume = &corev1.FlexVolumeSource{} }, func() { v.Cinder = &corev1.CinderVolumeSource{} },
		func() { v.CephFS = &corev1.CephFSVolumeSource{} }, func() { v.Flocker = &corev1.FlockerVolumeSource{} },
		func() { v.FC = &corev1.FCVolumeSource{} }, func() { v.AzureFile = &corev1.AzureFileVolumeSource{} },
		func() { v.VsphereVolume = &corev1.VsphereVirtualDiskVolumeSource{} }, func() { v.Quobyte = &corev1.QuobyteVolumeSource{} },
		func() { v.AzureDisk = &corev1.AzureDiskVolumeSource{} },
		func() { v.PhotonPersistentDisk = &corev1.PhotonPersistentDiskVolumeSource{} },
		func() { v.PortworxVolume = &corev1.PortworxVolumeSource{} }, func() { v.ScaleIO = &corev1.ScaleIOVolumeSource{} },
		func() { v.StorageOS = &corev1.StorageOSVolumeSource{} },
	} {
		if m.rarely(25) {
			set()
		}
	}
	return v
}

// workload returns an object with a template of pods, and its group and resource.
func (m maker) workload() (_ metav1.Object, group, resource string) {
	p := m.pod()
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "w"}
	template := corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
	switch m.IntN(9) {
	case 0:
		return &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}}, "", "replicationcontrollers"
	case 1:
		return &corev1.ReplicationController{ObjectMeta: meta}, "", "replicationcontrollers"
	case 2:
		return &corev1.PodTemplate{ObjectMeta: meta, Template: template}, "", "podtemplates"
	case 3:
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}}, "apps", "deployments"
	case 4:
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}}, "apps", "replicasets"
	case 5:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template}}, "apps", "statefulsets"
	case 6:
		return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}}, "apps", "daemonsets"
	case 7:
		return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}}, "batch", "jobs"
	}
	job := batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}
	return &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: job}}, "batch", "cronjobs"
}
