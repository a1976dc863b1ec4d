package kubelet_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestContainerConfig checks the CRI configuration of a container.
func TestContainerConfig(t *testing.T) {
	told := make(chan *runtimeapi.ContainerConfig, 10)
	r := newRig(t, memruntime.Config{Behave: func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
		told <- c
		return memruntime.Behavior{}
	}})
	r.config.CgroupRoot = "/kubepods"
	r.config.CgroupMount = t.TempDir()
	for _, controller := range []string{"cpu", "memory"} {
		if err := os.Mkdir(filepath.Join(r.config.CgroupMount, controller), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	pod := webPod("web")
	web := &pod.Spec.Containers[0]
	web.Command, web.Args = []string{"run", "$(IP)"}, []string{"$$(IP)", "$(NONE)"}
	web.Env = []corev1.EnvVar{
		{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		{Name: "URL", Value: "http://$(IP)/"},
		{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "password"}}},
		{Name: "CONF", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "a.conf"}}},
		{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: resource.MustParse("1m")}}},
	}
	web.EnvFrom = []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{}}}
	web.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
	web.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	web.VolumeMounts = []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/conf", ReadOnly: true}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
	created := r.api.create(pod)
	r.api.await(t, "web", "running", running)
	c := <-told

	var env []string
	for _, kv := range c.Envs {
		env = append(env, kv.Key+"="+string(kv.Value))
	}
	want := []string{"P_a.conf=alpha", "P_b.conf=beta", "IP=10.9.0.2", "URL=http://10.9.0.2/", "PASSWORD=open sesame", "CONF=alpha", "CPU=1500"}
	if !slices.Equal(env, want) {
		t.Errorf("environment %q, want %q", env, want)
	}
	if got := strings.Join(append(c.Command, c.Args...), " "); got != "run 10.9.0.2 $(IP) $(NONE)" {
		t.Errorf("command %q", got)
	}
	l := c.Linux.Resources
	if l.CpuShares != 256 || l.CpuQuota != 150000 || l.CpuPeriod != 100000 || l.MemoryLimitInBytes != 64<<20 || l.OomScoreAdj != 999 {
		t.Errorf("resources: %v", l)
	}
	hosts, volume := "", ""
	for _, m := range c.Mounts {
		switch m.ContainerPath {
		case "/etc/hosts":
			hosts = m.HostPath
		case "/etc/conf":
			volume = m.HostPath
			if !m.Readonly {
				t.Error("the volume is writable")
			}
		}
	}
	if text, err := os.ReadFile(hosts); err != nil || !strings.Contains(string(text), "10.9.0.2\tweb\n") {
		t.Errorf("hosts: %s %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(volume, "b.conf")); err != nil || string(text) != "beta" {
		t.Errorf("volume: %s %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(r.config.CgroupMount, "cpu/kubepods/burstable/pod"+string(created.UID)+"/cpu.shares")); err != nil {
		t.Error(err)
	}
}

// TestSubPaths: a container mounts the part of a volume that it names, and does not start if there is
// no such part.
func TestSubPaths(t *testing.T) {
	told := make(chan *runtimeapi.ContainerConfig, 10)
	r := newRig(t, memruntime.Config{Behave: func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
		told <- c
		return memruntime.Behavior{}
	}})
	r.start()
	pod := webPod("web")
	web := &pod.Spec.Containers[0]
	web.Env = []corev1.EnvVar{{Name: "FILE", Value: "b"}}
	web.VolumeMounts = []corev1.VolumeMount{
		{Name: "conf", MountPath: "/etc/a.conf", SubPath: "a.conf"}, {Name: "conf", MountPath: "/etc/b.conf", SubPathExpr: "$(FILE).conf"},
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
	r.api.create(pod)
	r.api.await(t, "web", "running", running)
	c := <-told
	for path, want := range map[string]string{"/etc/a.conf": "alpha", "/etc/b.conf": "beta"} {
		i := slices.IndexFunc(c.Mounts, func(m *runtimeapi.Mount) bool { return m.ContainerPath == path })
		if i < 0 {
			t.Fatalf("%s is not mounted", path)
		}
		if text, err := os.ReadFile(c.Mounts[i].HostPath); err != nil || string(text) != want {
			t.Errorf("ReadFile of what is mounted at %s = %q, %v, want %q", path, text, err, want)
		}
	}
	// Nothing stays mounted.
	r.api.delete("web", 0)
	r.api.await(t, "web", "gone", gone)
	nothingLeft(t, r.config.Root)
	for name, test := range map[string]struct {
		mount corev1.VolumeMount
		want  string
	}{
		"absolute": {corev1.VolumeMount{SubPathExpr: "$(ROOT)"}, "error SubPath `/etc` must not be an absolute path"},
		"backstep": {corev1.VolumeMount{SubPathExpr: "$(UP)/x"}, "unable to provision SubPath `../x`: must not contain '..'"},
		"missing":  {corev1.VolumeMount{SubPathExpr: "$(NONE)/x"}, `missing value for "NONE"`},
		"file":     {corev1.VolumeMount{SubPath: "a.conf/x"}, `failed to prepare subPath for volumeMount "conf" of container "web"`},
	} {
		pod := webPod(name)
		pod.Spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
		test.mount.Name, test.mount.MountPath = "conf", "/x"
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{test.mount}
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ROOT", Value: "/etc"}, {Name: "UP", Value: ".."}}
		r.api.create(pod)
		r.api.await(t, name, "held back with "+test.want, func(pod *corev1.Pod) bool {
			if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
				return false
			}
			w := firstStatus(pod).State.Waiting
			return w != nil && w.Reason == "CreateContainerConfigError" && w.Message == test.want
		})
	}
}

func TestPodThatCannotStartReportsReason(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.start()
	pod := webPod("web")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "nonesuch",
		LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}}
	r.api.create(pod)
	waiting := r.api.await(t, "web", "held back", func(pod *corev1.Pod) bool {
		if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		w := firstStatus(pod).State.Waiting
		return w != nil && w.Reason == "CreateContainerConfigError"
	})
	if got := waiting.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(got, "couldn't find key nonesuch in Secret default/s") {
		t.Errorf("message %q", got)
	}
	pod = webPod("mount")
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}}}
	r.api.create(pod)
	r.api.awaitEvent(t, "mount", "FailedMount", `MountVolume.SetUp failed for volume "v" : this kind of volume is not supported by this kubelet`)
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := kubelet.New(kubelet.Config{}); err == nil || !strings.Contains(err.Error(), "Runtime is missing") {
		t.Errorf("empty: %v", err)
	}
	r := newRig(t, memruntime.Config{})
	for what, spoil := range map[string]func(*kubelet.Config){
		"NodeName":   func(c *kubelet.Config) { c.NodeName = "../up" },
		"Root":       func(c *kubelet.Config) { c.Root = "relative" },
		"CgroupRoot": func(c *kubelet.Config) { c.CgroupRoot = "/" },
		"PodCIDR":    func(c *kubelet.Config) { c.PodCIDR = "10.0.0.1" },
		"MaxParallelPulls": func(c *kubelet.Config) {
			serialize := true
			c.SerializeImagePulls, c.MaxParallelPulls = &serialize, 2
		},
		`has "all"`:         func(c *kubelet.Config) { c.Cgroups.Enforce = []string{"all"} },
		`"pods" twice`:      func(c *kubelet.Config) { c.Cgroups.Enforce = []string{"pods", "pods"} },
		`more than "none"`:  func(c *kubelet.Config) { c.Cgroups.Enforce = []string{"none", "pods"} },
		"needs PerQOS":      func(c *kubelet.Config) { c.Cgroups = kubelet.Cgroups{PerQOS: new(false), Enforce: []string{"pods"}} },
		"SystemReserved":    func(c *kubelet.Config) { c.Cgroups.Enforce = []string{"system-reserved"} },
		"Cgroups.KubeReser": func(c *kubelet.Config) { c.Cgroups.Enforce = []string{"kube-reserved-compressible"} },
		"has both": func(c *kubelet.Config) {
			c.Cgroups = kubelet.Cgroups{Enforce: []string{"kube-reserved", "kube-reserved-compressible"}, KubeReserved: "/kube"}
		},
		"DockerConfigDirs": func(c *kubelet.Config) { c.DockerConfigDirs = []string{"relative"} },
	} {
		c := r.config
		spoil(&c)
		if _, err := kubelet.New(c); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("bad %s: %v", what, err)
		}
	}
}
