package podsecurity

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/planekit/planekit/admission/podsecurity"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

var pods = flag.Int("pods", 10_000, "random pods to compare")

// levels pairs the names of both sides.
var levels = map[api.Level]podsecurity.Level{
	api.LevelPrivileged: podsecurity.Privileged, api.LevelBaseline: podsecurity.Baseline, api.LevelRestricted: podsecurity.Restricted,
}

// differ compares both evaluations of a pod, and returns the stock one.
func differ(t *testing.T, stock policy.Evaluator, own *podsecurity.Standards, standard api.LevelVersion, pod *corev1.Pod) policy.AggregateCheckResult {
	t.Helper()
	want := policy.AggregateCheckResults(stock.EvaluatePod(standard, &pod.ObjectMeta, &pod.Spec))
	s := podsecurity.Standard{Level: levels[standard.Level]}
	if !standard.Version.Latest() {
		s.Version = podsecurity.V(standard.Version.Minor())
	}
	got := own.Evaluate(s, &pod.ObjectMeta, &pod.Spec)
	if s.String() != standard.String() || (len(got) == 0) != want.Allowed || got.Reasons() != want.ForbiddenReason() || got.String() != want.ForbiddenDetail() {
		t.Errorf("%v:\n%v\nwant %v:\n%v", s, got, standard, want.ForbiddenDetail())
	}
	return want
}

// TestRandomPods: the same is allowed at each level and version, and all else is refused for the same reasons.
func TestRandomPods(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := maker{rand.New(rand.NewPCG(seed, 0))}
	stock, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	own := podsecurity.NewStandards()
	changes := []int{0, 7, 8, 18, 19, 21, 22, 23, 25, 27, 29, 31, 32, 34, 35, 36, 1000}
	allowed := map[bool]int{}
	for i := range *pods {
		pod := m.pod()
		versions := []api.Version{api.LatestVersion()}
		if i%50 == 0 {
			for minor := range 40 {
				versions = append(versions, api.MajorMinorVersion(1, minor))
			}
		} else {
			versions = append(versions, api.MajorMinorVersion(1, changes[m.IntN(len(changes))]), api.MajorMinorVersion(1, changes[m.IntN(len(changes))]))
		}
		for _, version := range versions {
			for level := range levels {
				allowed[differ(t, stock, own, api.LevelVersion{Level: level, Version: version}, pod).Allowed]++
			}
		}
		if t.Failed() {
			t.Fatalf("pod %d: %+v", i, pod)
		}
	}
	if allowed[false] < *pods || allowed[true] < *pods {
		t.Errorf("allowed or not: %v", allowed)
	}
}

// BenchmarkEvaluate compares both on pods that pass the level, and on random ones.
func BenchmarkEvaluate(b *testing.B) {
	stock, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		b.Fatal(err)
	}
	own := podsecurity.NewStandards()
	m := maker{rand.New(rand.NewPCG(1, 1))}
	random := make([]*corev1.Pod, 1000)
	for i := range random {
		random[i] = m.pod()
	}
	good := good()
	for level, ours := range levels {
		for name, all := range map[string][]*corev1.Pod{"good": {good}, "random": random} {
			b.Run("level="+string(level)+"/pods="+name+"/planekit", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					p := all[i%len(all)]
					_ = own.Evaluate(podsecurity.Standard{Level: ours}, &p.ObjectMeta, &p.Spec).String()
				}
			})
			b.Run("level="+string(level)+"/pods="+name+"/kubernetes", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					p := all[i%len(all)]
					r := policy.AggregateCheckResults(stock.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &p.ObjectMeta, &p.Spec))
					_ = r.ForbiddenDetail()
				}
			})
		}
	}
}

// good returns a pod of two containers that meets the restricted standard.
func good() *corev1.Pod {
	yes, no := true, false
	p := &corev1.Pod{Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers:      []corev1.Container{{Name: "web", Image: "nginx"}, {Name: "log", Image: "fluentd"}},
	}}
	p.Name, p.Namespace = "a", "shop"
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	}
	return p
}
