package cpumanager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// machine makes a topology with numbers as on real machines: the second threads of all cores follow the
// first ones.
func machine(nodes, socketsPerNode, coresPerSocket, threads int) Topology {
	t := Topology{}
	cores := nodes * socketsPerNode * coresPerSocket
	for c := range cores {
		for thread := range threads {
			t[thread*cores+c] = CPU{Core: c, Socket: c / coresPerSocket, Node: c / coresPerSocket / socketsPerNode}
		}
	}
	return t
}

func cpus(n string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n), corev1.ResourceMemory: resource.MustParse("1Mi")}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

// guaranteed makes a pod whose containers request CPUs; each is "init", "side" or "app", and a number.
func guaranteed(uid string, containers ...string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.UID, pod.Name = types.UID(uid), uid
	always := corev1.ContainerRestartPolicyAlways
	for i, text := range containers {
		var kind, n string
		if _, err := fmt.Sscanf(text, "%s %s", &kind, &n); err != nil {
			panic(err)
		}
		c := corev1.Container{Name: fmt.Sprintf("%s%d", kind, i), Resources: cpus(n)}
		switch kind {
		case "app":
			pod.Spec.Containers = append(pod.Spec.Containers, c)
			continue
		case "side":
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

// invariants checks assignments one CPU at a time.
func invariants(t *testing.T, s *static, a assignments, pods map[string]*corev1.Pod) {
	t.Helper()
	for cpu := range s.topology {
		owner := ""
		for uid, containers := range a.pods {
			held, runs := false, false
			for name, set := range containers {
				if !set.Has(cpu) {
					continue
				}
				held = true
				long := name[:4] != "init"
				if long && runs {
					t.Fatalf("CPU %d runs two containers of pod %s: %v", cpu, uid, containers)
				}
				runs = runs || long
			}
			if !held {
				continue
			}
			if owner != "" {
				t.Fatalf("pods %s and %s have CPU %d", owner, uid, cpu)
			}
			owner = uid
		}
		usable := !s.options.strictReservation || !s.reserved.Has(cpu)
		switch {
		case owner != "" && s.reserved.Has(cpu):
			t.Fatalf("pod %s has the reserved CPU %d", owner, cpu)
		case (owner == "" && usable) != a.shared.Has(cpu):
			t.Fatalf("CPU %d of pod %q: the others share %s", cpu, owner, a.shared)
		}
	}
	for uid, containers := range a.pods {
		pod := pods[uid]
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if n := ExclusiveCPUs(pod, &c); n != containers[c.Name].Len() {
				t.Fatalf("container %s of pod %s has %s and requests %d", c.Name, uid, containers[c.Name], n)
			}
			if cores := s.topology.wholeCores(containers[c.Name]); s.options.fullCores && !cores.Equal(containers[c.Name]) {
				t.Fatalf("container %s of pod %s has %s, which are not whole cores", c.Name, uid, containers[c.Name])
			}
		}
		// An init container runs beside the sidecars before it.
		var sidecars Set
		for _, c := range pod.Spec.InitContainers {
			if containers[c.Name].And(sidecars).Len() > 0 {
				t.Fatalf("init container %s of pod %s has CPUs of a sidecar: %v", c.Name, uid, containers)
			}
			if c.RestartPolicy != nil {
				sidecars = sidecars.Union(containers[c.Name])
			}
		}
	}
}

// most returns the most CPUs that a pod holds at a time, when nothing else runs.
func most(pod *corev1.Pod) (n int) {
	running := 0
	for _, c := range pod.Spec.InitContainers {
		n = max(n, running+ExclusiveCPUs(pod, &c))
		if c.RestartPolicy != nil {
			running += ExclusiveCPUs(pod, &c)
		}
	}
	for _, c := range pod.Spec.Containers {
		running += ExclusiveCPUs(pod, &c)
	}
	return max(n, running)
}

func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 200 {
		runModel(t, seed+uint64(i))
	}
}

func runModel(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	topology := machine(1+random.IntN(2), 1+random.IntN(2), 1+random.IntN(4), 1+random.IntN(2))
	o := options{fullCores: random.IntN(2) == 0, strictReservation: random.IntN(2) == 0}
	s, err := newStatic(topology, o, Set{}, 1+random.IntN(len(topology)))
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	a, pods := assignments{shared: s.all}, map[string]*corev1.Pod{}
	for step := range 40 {
		switch random.IntN(4) {
		case 0: // a pod ends
			for uid := range a.pods {
				a = s.release(a, uid)
				delete(pods, uid)
				break
			}
		case 1: // the kubelet restarts
			data, err := encode(PolicyStatic, a)
			if err != nil {
				t.Fatal(err)
			}
			before := a
			if a, err = decode(PolicyStatic, data); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := s.check(a); err != nil {
				t.Fatalf("seed %d: %v in %s", seed, err, data)
			}
			if fmt.Sprint(a) != fmt.Sprint(before) {
				t.Fatalf("seed %d: %v became %v", seed, before, a)
			}
		default:
			var containers []string
			for _, kind := range []string{"init", "side", "init", "app", "app"} {
				if random.IntN(2) == 0 {
					containers = append(containers, fmt.Sprintf("%s %d", kind, 1+random.IntN(4)))
				}
			}
			pod := guaranteed(fmt.Sprint("pod", step), containers...)
			next, err := s.admit(a, pod)
			free := a.shared.Minus(s.reserved)
			switch _, smt := errors.AsType[*SMTAlignmentError](err); {
			case err == nil && most(pod) > free.Len():
				t.Fatalf("seed %d: %v fit in %s", seed, containers, free)
			case err != nil && most(pod) <= free.Len() && !o.fullCores:
				t.Fatalf("seed %d: %v do not fit in %s: %v", seed, containers, free, err)
			case err != nil && o.fullCores && !smt:
				t.Fatalf("seed %d: %v", seed, err)
			case err != nil && fmt.Sprint(next) != fmt.Sprint(a):
				t.Fatalf("seed %d: a refused pod changed %v to %v", seed, a, next)
			}
			again, err := s.admit(next, pod)
			if err == nil && fmt.Sprint(again) != fmt.Sprint(next) {
				t.Fatalf("seed %d: admitted twice, %v became %v", seed, next, again)
			}
			if a = next; a.pods[string(pod.UID)] != nil {
				pods[string(pod.UID)] = pod
			}
		}
		invariants(t, s, a, pods)
	}
}
