//go:build linux

package lives_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// An ending is how a pod ends unless it is deleted before.
type ending string

const (
	steady   ending = "steady"   // it runs until it is deleted
	ends     ending = "ends"     // its containers end, and are not started again
	crashes  ending = "crashes"  // its containers end, and are started again
	deadline ending = "deadline" // it has an active deadline
)

// plan is the life of a pod.
type plan struct {
	pod    *corev1.Pod
	ending ending
	// early is when the pod is deleted, whatever it does by then; zero means not before it is up.
	early time.Duration
	// stay is how long it is left alone once it is up.
	stay time.Duration
	// resize and kill mean that a container is resized, and that the process of one is killed.
	resize, kill bool
	// grace, in seconds, goes with the deletion; nil means the pod's own.
	grace *int64
}

func (p *plan) String() string {
	var volumes []string
	for _, v := range p.pod.Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	return fmt.Sprintf("%s %s %s early=%v stay=%v resize=%t kill=%t volumes=%v inits=%d", p.pod.Name, p.ending, p.pod.Spec.RestartPolicy,
		p.early, p.stay, p.resize, p.kill, volumes, len(p.pod.Spec.InitContainers))
}

// fails reports whether a container ends with an error.
func (p *plan) fails() bool {
	return slices.ContainsFunc(p.pod.Spec.Containers, func(c corev1.Container) bool { return slices.Contains(c.Args, "-exit=3") })
}

// one returns true once in n times.
func one(r *rand.Rand, in int) bool { return r.IntN(in) == 0 }

// newPlan returns a random life.
func newPlan(r *rand.Rand, name, hostPath string) *plan {
	p := &plan{
		ending: []ending{steady, steady, steady, steady, ends, ends, crashes, deadline}[r.IntN(8)],
		stay:   time.Duration(r.IntN(5000)) * time.Millisecond,
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"lives": "yes"}},
			Spec: corev1.PodSpec{
				NodeName:                      nodeName,
				RestartPolicy:                 corev1.RestartPolicyAlways,
				TerminationGracePeriodSeconds: new(int64(1 + r.IntN(4))),
				HostNetwork:                   one(r, 6),
			},
		},
	}
	if one(r, 5) {
		p.early = time.Duration(1+r.IntN(2000)) * time.Millisecond
	}
	if one(r, 2) {
		p.grace = new(int64(r.IntN(4)))
	}
	s := &p.pod.Spec
	switch p.ending {
	case steady:
		s.RestartPolicy = []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}[r.IntN(4)]
		p.kill = s.RestartPolicy == corev1.RestartPolicyAlways && one(r, 4)
		p.resize = !p.kill && s.RestartPolicy == corev1.RestartPolicyAlways && one(r, 3)
	case ends:
		s.RestartPolicy = []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}[r.IntN(2)]
	case deadline:
		s.ActiveDeadlineSeconds = new(int64(2 + r.IntN(4)))
	}
	p.addContainers(r)
	p.addVolumes(r, hostPath)
	return p
}

// addContainers adds the containers, with their probes and hooks.
func (p *plan) addContainers(r *rand.Rand) {
	s := &p.pod.Spec
	for i := range r.IntN(3) {
		s.InitContainers = append(s.InitContainers, actor(fmt.Sprintf("init-%d", i), fmt.Sprintf("-after=%dms", 1+r.IntN(300))))
	}
	if one(r, 3) {
		sidecar := actor("sidecar")
		sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		addProbes(r, &sidecar, false)
		at := r.IntN(len(s.InitContainers) + 1)
		s.InitContainers = append(s.InitContainers[:at:at], append([]corev1.Container{sidecar}, s.InitContainers[at:]...)...)
	}
	for i := range 1 + r.IntN(2) {
		c := actor(fmt.Sprintf("main-%d", i))
		if i == 0 && !s.HostNetwork {
			c.Args = append(c.Args, "-serve")
			if one(r, 3) {
				c.Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: hostPort()}}
			}
		}
		if one(r, 4) {
			c.Args = append(c.Args, "-stubborn")
		}
		if one(r, 4) {
			c.Args = append(c.Args, "-child")
		}
		switch p.ending {
		case ends:
			c.Args = append(c.Args, fmt.Sprintf("-after=%dms", 1+r.IntN(1500)))
			if s.RestartPolicy == corev1.RestartPolicyNever && one(r, 3) {
				c.Args = append(c.Args, "-exit=3")
			}
		case crashes:
			c.Args = append(c.Args, fmt.Sprintf("-after=%dms", 1+r.IntN(500)), "-exit=4")
		default:
			addProbes(r, &c, i == 0 && !s.HostNetwork)
		}
		addHooks(r, &c)
		if p.resize || one(r, 3) {
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("128Mi")}
		}
		s.Containers = append(s.Containers, c)
	}
}

func actor(name string, arguments ...string) corev1.Container {
	return corev1.Container{Name: name, Image: actorImage, Args: append([]string{"run"}, arguments...)}
}

// hostPort returns a port of the host that is free; 0, which maps none, if there is none.
func hostPort() int32 {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0
	}
	defer listener.Close()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

// addProbes adds probes that succeed. They are patient: the machine may be busy.
func addProbes(r *rand.Rand, c *corev1.Container, serves bool) {
	probe := func() *corev1.Probe {
		handlers := []corev1.ProbeHandler{{Exec: &corev1.ExecAction{Command: []string{"/actor", "ok"}}}}
		if serves {
			handlers = append(handlers, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}},
				corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}})
		}
		return &corev1.Probe{ProbeHandler: handlers[r.IntN(len(handlers))], PeriodSeconds: 1, TimeoutSeconds: 20, FailureThreshold: 30}
	}
	if one(r, 3) {
		c.StartupProbe = probe()
	}
	if one(r, 3) {
		c.ReadinessProbe = probe()
	}
	if one(r, 3) {
		c.LivenessProbe = probe()
	}
}

// addHooks adds hooks that succeed.
func addHooks(r *rand.Rand, c *corev1.Container) {
	hook := func() *corev1.LifecycleHandler {
		if one(r, 2) {
			return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}
		}
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/actor", "ok"}}}
	}
	c.Lifecycle = &corev1.Lifecycle{}
	if one(r, 4) {
		c.Lifecycle.PostStart = hook()
	}
	if one(r, 4) {
		c.Lifecycle.PreStop = hook()
	}
}

// The objects of the volumes.
const (
	configName = "conf"
	secretName = "secret"
)

// volumeKinds are the volumes of pods, each with the mount, the file that the actor must find and the
// file that it writes.
func volumeKinds(hostPath string) []volumeKind {
	conf := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configName}}
	name := []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
	projected := &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: conf.LocalObjectReference}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: secretName}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: name}},
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
	}}
	return []volumeKind{
		{source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, name: "disk", write: "file"},
		{source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("1Mi"))}}, name: "memory", write: "file"},
		{source: corev1.VolumeSource{ConfigMap: conf}, name: "conf", need: "a.conf"},
		{source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secretName}}, name: "secret", need: "password"},
		{source: corev1.VolumeSource{Projected: projected}, name: "projected", need: "token"},
		{source: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: name}}, name: "downward", need: "name"},
		{source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: hostPath}}, name: "host", need: "mark"},
		{source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, name: "part", subPath: "of/$(POD)", write: "file"},
		{source: corev1.VolumeSource{ConfigMap: conf}, name: "file", subPath: "a.conf"},
	}
}

type volumeKind struct {
	name   string
	source corev1.VolumeSource
	// need and write are names of files; empty means none.
	need, write string
	// subPath goes into the mount; $(POD) stands for the name of the pod.
	subPath string
}

// addVolumes mounts some volumes into all containers.
func (p *plan) addVolumes(r *rand.Rand, hostPath string) {
	var need []string
	var write string
	var mounts []corev1.VolumeMount
	for _, k := range volumeKinds(hostPath) {
		if !one(r, 3) {
			continue
		}
		p.pod.Spec.Volumes = append(p.pod.Spec.Volumes, corev1.Volume{Name: k.name, VolumeSource: k.source})
		mount := corev1.VolumeMount{Name: k.name, MountPath: "/volumes/" + k.name}
		if strings.Contains(k.subPath, "$") {
			mount.SubPathExpr = k.subPath
		} else if mount.SubPath = k.subPath; k.subPath != "" {
			need = append(need, mount.MountPath)
		}
		mounts = append(mounts, mount)
		if k.need != "" {
			need = append(need, mount.MountPath+"/"+k.need)
		}
		if k.write != "" {
			write = mount.MountPath + "/" + k.write
		}
	}
	for _, list := range [][]corev1.Container{p.pod.Spec.InitContainers, p.pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			c.Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
			c.VolumeMounts = mounts
			c.Args = append(c.Args, "-need="+strings.Join(need, ","))
			if write != "" {
				c.Args = append(c.Args, "-write="+write)
			}
		}
	}
}
