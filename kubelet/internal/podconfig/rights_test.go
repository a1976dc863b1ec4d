package podconfig

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/abilities"
	"github.com/planekit/planekit/kubelet/internal/userns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// newBuilder returns a builder on a runtime whose handler "able" supports everything, and whose
// default handler nothing.
func newBuilder(t *testing.T) *Builder {
	t.Helper()
	root := t.TempDir()
	able := &abilities.Set{}
	able.Learn(&runtimeapi.StatusResponse{RuntimeHandlers: []*runtimeapi.RuntimeHandler{
		{Name: ""},
		{Name: "able", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}},
	}})
	return &Builder{
		NodeName: "node-1", Root: root, LogRoot: filepath.Join(root, "logs"), ResolvConf: filepath.Join(root, "resolv.conf"),
		Capacity: func() corev1.ResourceList { return nil },
		Cgroup:   func(*corev1.Pod) string { return "" },
		Handler: func(pod *corev1.Pod) (string, error) {
			if name := pod.Spec.RuntimeClassName; name != nil {
				return *name, nil
			}
			return "", nil
		},
		Abilities: able, UserNamespaces: userns.New(filepath.Join(root, "pods")),
		HugePageSizes: func() []string { return []string{"1GB", "2MB"} },
	}
}

// newPod returns a pod with a container, whose directory exists.
func newPod(t *testing.T, b *Builder, handler string) (*corev1.Pod, *corev1.Container) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1"}}
	if handler != "" {
		pod.Spec.RuntimeClassName = &handler
	}
	pod.Spec.Containers = []corev1.Container{{Name: "web", SecurityContext: &corev1.SecurityContext{}}}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	if err := os.MkdirAll(b.PodDirectory(pod.UID), 0o750); err != nil {
		t.Fatal(err)
	}
	return pod, &pod.Spec.Containers[0]
}

// container returns the CRI configuration of a pod's first container.
func container(t *testing.T, b *Builder, pod *corev1.Pod, volumes map[string]string) (*runtimeapi.ContainerConfig, error) {
	t.Helper()
	return b.Container(t.Context(), pod, &pod.Spec.Containers[0], 0, &runtimeapi.Image{Id: "sha256:1"}, Volumes{Paths: volumes}, "")
}

func TestAppArmor(t *testing.T) {
	profile := func(kind corev1.AppArmorProfileType, name string) *corev1.AppArmorProfile {
		p := &corev1.AppArmorProfile{Type: kind}
		if name != "" {
			p.LocalhostProfile = &name
		}
		return p
	}
	for what, test := range map[string]struct {
		pod, container *corev1.AppArmorProfile
		annotation     string
		want           string // type, name, the old form; empty is none
		refused        string
	}{
		"none":                         {},
		"the pod's":                    {pod: profile("RuntimeDefault", ""), want: "RuntimeDefault  runtime/default"},
		"the container's":              {pod: profile("RuntimeDefault", ""), container: profile("Unconfined", ""), want: "Unconfined  unconfined"},
		"of the machine":               {container: profile("Localhost", "strict"), want: "Localhost strict localhost/strict"},
		"an annotation before the pod": {pod: profile("RuntimeDefault", ""), annotation: "localhost/old", want: "Localhost old localhost/old"},
		"a field before an annotation": {container: profile("RuntimeDefault", ""), annotation: "unconfined", want: "RuntimeDefault  runtime/default"},
		"annotation of the default":    {annotation: "runtime/default", want: "RuntimeDefault  runtime/default"},
		"annotation unconfined":        {annotation: "unconfined", want: "Unconfined  unconfined"},
		"a bad annotation":             {pod: profile("Unconfined", ""), annotation: "docker/x", want: "Unconfined  unconfined"},
		"without a name":               {container: profile("Localhost", ""), refused: "missing localhost apparmor profile name"},
		"an unknown type":              {container: profile("Other", ""), refused: `unknown apparmor profile type: "Other"`},
	} {
		b := newBuilder(t)
		pod, c := newPod(t, b, "")
		pod.Spec.SecurityContext.AppArmorProfile, c.SecurityContext.AppArmorProfile = test.pod, test.container
		if test.annotation != "" {
			pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/web": test.annotation}
		}
		config, err := container(t, b, pod, nil)
		if test.refused != "" || err != nil {
			if err == nil || err.Error() != test.refused {
				t.Errorf("%s: Container: error %v, want %q", what, err, test.refused)
			}
			continue
		}
		s := config.Linux.SecurityContext
		got := s.GetApparmorProfile() //lint:ignore SA1019 old runtimes read it
		if s.Apparmor != nil {
			got = s.Apparmor.ProfileType.String() + " " + s.Apparmor.LocalhostRef + " " + got
		}
		if got != test.want {
			t.Errorf("%s: the AppArmor profile is %q, want %q", what, got, test.want)
		}
	}
}

func TestSELinux(t *testing.T) {
	b := newBuilder(t)
	pod, c := newPod(t, b, "")
	pod.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{User: "u", Role: "r", Type: "t", Level: "s0"}
	config, err := container(t, b, pod, nil)
	if err != nil || !reflect.DeepEqual(config.Linux.SecurityContext.SelinuxOptions, &runtimeapi.SELinuxOption{User: "u", Role: "r", Type: "t", Level: "s0"}) {
		t.Errorf("Container has %v, %v, want the SELinux options u, r, t, s0", config.GetLinux().GetSecurityContext(), err)
	}
	sandbox, err := b.Sandbox(pod, 0)
	if err != nil || sandbox.Linux.SecurityContext.SelinuxOptions.GetType() != "t" {
		t.Errorf("Sandbox = %v, %v, want the SELinux type t", sandbox, err)
	}
	// A container's options replace the pod's as a whole.
	c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s1"}
	if config, err = container(t, b, pod, nil); err != nil || !reflect.DeepEqual(config.Linux.SecurityContext.SelinuxOptions, &runtimeapi.SELinuxOption{Level: "s1"}) {
		t.Errorf("Container has %v, %v, want the SELinux level s1 alone", config.GetLinux().GetSecurityContext(), err)
	}
}

func TestSupplementalGroupsPolicy(t *testing.T) {
	b := newBuilder(t)
	pod, _ := newPod(t, b, "")
	strict, merge, other := corev1.SupplementalGroupsPolicyStrict, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicy("Other")
	try := func(policy *corev1.SupplementalGroupsPolicy, want runtimeapi.SupplementalGroupsPolicy, refused string) {
		t.Helper()
		pod.Spec.SecurityContext.SupplementalGroupsPolicy = policy
		sandbox, err := b.Sandbox(pod, 0)
		config, also := container(t, b, pod, nil)
		if refused != "" {
			if err == nil || also == nil || err.Error() != refused || also.Error() != refused {
				t.Errorf("Sandbox: error %v, Container: error %v, want %q from both", err, also, refused)
			}
			return
		}
		if err = errors.Join(err, also); err != nil || sandbox.Linux.SecurityContext.SupplementalGroupsPolicy != want || config.Linux.SecurityContext.SupplementalGroupsPolicy != want {
			t.Errorf("the policies are %v of Sandbox, %v of Container, error %v, want %v",
				sandbox.GetLinux().GetSecurityContext().GetSupplementalGroupsPolicy(),
				config.GetLinux().GetSecurityContext().GetSupplementalGroupsPolicy(), err, want)
		}
	}
	try(nil, runtimeapi.SupplementalGroupsPolicy_Merge, "")
	try(&merge, runtimeapi.SupplementalGroupsPolicy_Merge, "")
	try(&strict, 0, "SupplementalGroupsPolicy=Strict is not supported in this node")
	try(&other, 0, "unsupported supplementalGroupsPolicy: Other")
	b.Abilities.Learn(&runtimeapi.StatusResponse{Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}})
	try(&strict, runtimeapi.SupplementalGroupsPolicy_Strict, "")
}

func TestUserNamespace(t *testing.T) {
	b := newBuilder(t)
	pod, _ := newPod(t, b, "")
	node, own := true, false
	for _, hosts := range []*bool{nil, &node} {
		pod.Spec.HostUsers = hosts
		sandbox, err := b.Sandbox(pod, 0)
		if err != nil || sandbox.Linux.SecurityContext.NamespaceOptions.UsernsOptions.GetMode() != runtimeapi.NamespaceMode_NODE {
			t.Errorf("Sandbox (HostUsers is set: %v) = %v, %v, want the mode NODE", hosts != nil, sandbox, err)
		}
	}
	pod.Spec.HostUsers = &own
	const refused = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	if _, err := b.Sandbox(pod, 0); err == nil || err.Error() != refused {
		t.Errorf("Sandbox: error %v, want %q", err, refused)
	}
	able := "able"
	pod.Spec.RuntimeClassName = &able
	sandbox, err := b.Sandbox(pod, 0)
	if err != nil {
		t.Fatal(err)
	}
	ids := sandbox.Linux.SecurityContext.NamespaceOptions.UsernsOptions
	if ids.GetMode() != runtimeapi.NamespaceMode_POD || len(ids.Uids) != 1 || ids.Uids[0].HostId != 65536 || ids.Uids[0].Length != 65536 {
		t.Errorf("Sandbox has the user namespace %v, want the mode POD and 65536 IDs from 65536", ids)
	}
	unmasked := corev1.UnmaskedProcMount
	pod.Spec.Containers[0].SecurityContext.ProcMount = &unmasked
	config, err := container(t, b, pod, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := config.Linux.SecurityContext
	if !reflect.DeepEqual(s.NamespaceOptions.UsernsOptions.Uids, ids.Uids) || len(s.MaskedPaths)+len(s.ReadonlyPaths) != 0 {
		t.Errorf("Container has %v, want the UIDs %v, and no masked or read-only path", s, ids.Uids)
	}
	if len(config.Mounts) == 0 {
		t.Error("no mounts")
	}
	for _, m := range config.Mounts {
		if !reflect.DeepEqual(m.UidMappings, ids.Uids) || !reflect.DeepEqual(m.GidMappings, ids.Gids) {
			t.Errorf("mount %v", m)
		}
	}
}

func TestRecursiveReadOnlyMounts(t *testing.T) {
	ifPossible, enabled := corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled
	for _, test := range []struct {
		handler string
		mode    corev1.RecursiveReadOnlyMode
		want    bool
		refused string
	}{
		{"", ifPossible, false, ""},
		{"able", ifPossible, true, ""},
		{"able", enabled, true, ""},
		{"", enabled, false, `failed to resolve recursive read-only mode: volume "data" requested recursive read-only mode, but it is not supported by the runtime`},
	} {
		b := newBuilder(t)
		pod, c := newPod(t, b, test.handler)
		c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data", ReadOnly: true, RecursiveReadOnly: &test.mode}}
		config, err := container(t, b, pod, map[string]string{"data": t.TempDir()})
		if test.refused != "" {
			if err == nil || err.Error() != test.refused {
				t.Errorf("Container with the handler %q, mode %s: error %v, want %q", test.handler, test.mode, err, test.refused)
			}
			continue
		}
		if err != nil || config.Mounts[0].RecursiveReadOnly != test.want || !config.Mounts[0].Readonly {
			t.Errorf("Container with the handler %q, mode %s = %v, %v, want a read-only mount, recursive %v",
				test.handler, test.mode, config, err, test.want)
		}
	}
}

func TestHugePageLimits(t *testing.T) {
	b := newBuilder(t)
	pod, c := newPod(t, b, "")
	limits := func() string {
		config, err := container(t, b, pod, nil)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, l := range config.Linux.Resources.HugepageLimits {
			list = append(list, l.PageSize+"="+resource.NewQuantity(int64(l.Limit), resource.BinarySI).String())
		}
		return strings.Join(list, " ")
	}
	if got := limits(); got != "1GB=0 2MB=0" {
		t.Errorf("without limits: %s", got)
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"hugepages-2Mi": resource.MustParse("8Mi"), "hugepages-1Gi": resource.MustParse("1Gi"), "hugepages-": resource.MustParse("1"),
	}}
	c.Resources.Limits = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi"), "hugepages-32Mi": resource.MustParse("64Mi"), "memory": resource.MustParse("1Gi")}
	if got := limits(); got != "1GB=1Gi 2MB=4Mi" {
		t.Errorf("with limits: %s, want 1GB=1Gi 2MB=4Mi", got)
	}
}

func TestSeccompProfileOfTheNode(t *testing.T) {
	b := newBuilder(t)
	pod, c := newPod(t, b, "")
	name := "profiles/audit.json"
	c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &name}
	config, err := container(t, b, pod, nil)
	if want := filepath.Join(b.Root, "seccomp", name); err != nil || config.Linux.SecurityContext.Seccomp.LocalhostRef != want {
		t.Errorf("Container has %v, %v, want the seccomp profile %s", config.GetLinux().GetSecurityContext(), err, want)
	}
}

// TestSeccompDefault: the runtime's default profile replaces a missing one, and no other.
func TestSeccompDefault(t *testing.T) {
	profile := func(kind corev1.SeccompProfileType) *corev1.SeccompProfile {
		return &corev1.SeccompProfile{Type: kind}
	}
	const unconfined, standard = runtimeapi.SecurityProfile_Unconfined, runtimeapi.SecurityProfile_RuntimeDefault
	for _, test := range []struct {
		pod, container *corev1.SeccompProfile
		on             bool
		want           runtimeapi.SecurityProfile_ProfileType
	}{
		{nil, nil, false, unconfined}, {nil, nil, true, standard},
		{profile(corev1.SeccompProfileTypeUnconfined), nil, true, unconfined}, {nil, profile(corev1.SeccompProfileTypeUnconfined), true, unconfined},
		{profile(corev1.SeccompProfileTypeRuntimeDefault), nil, false, standard},
	} {
		b := newBuilder(t)
		b.SeccompDefault = test.on
		pod, c := newPod(t, b, "")
		pod.Spec.SecurityContext.SeccompProfile, c.SecurityContext.SeccompProfile = test.pod, test.container
		config, err := container(t, b, pod, nil)
		if err != nil || config.Linux.SecurityContext.Seccomp.ProfileType != test.want {
			t.Errorf("%+v: Container has the seccomp profile %v, error %v, want %v",
				test, config.GetLinux().GetSecurityContext().GetSeccomp(), err, test.want)
		}
	}
}

func TestOverhead(t *testing.T) {
	b := newBuilder(t)
	pod, _ := newPod(t, b, "")
	for _, test := range []struct {
		overhead corev1.ResourceList
		want     *runtimeapi.LinuxContainerResources
	}{
		{nil, nil},
		{corev1.ResourceList{"memory": resource.MustParse("64Mi")}, &runtimeapi.LinuxContainerResources{CpuShares: 2, MemoryLimitInBytes: 64 << 20}},
		{corev1.ResourceList{"cpu": resource.MustParse("250m")}, &runtimeapi.LinuxContainerResources{CpuShares: 256, CpuQuota: 25000, CpuPeriod: 100000}},
	} {
		pod.Spec.Overhead = test.overhead
		config, err := b.Sandbox(pod, 0)
		if err != nil || !reflect.DeepEqual(config.Linux.Overhead, test.want) {
			t.Errorf("Sandbox with the overhead %v = %v, %v, want %v", test.overhead, config, err, test.want)
		}
	}
}
