package podsecurity_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/podsecurity"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestLabels: labels must be valid when they change.
func TestLabels(t *testing.T) {
	p := newCluster().plugin(t, podsecurity.Configuration{})
	for label, want := range map[string]string{
		"enforce=baseline":                        "",
		"audit-version=latest":                    "",
		"warn-version=v1.99":                      "",
		"enforce=Baseline":                        `metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "Baseline": must be one of privileged, baseline, restricted`,
		"audit=":                                  `metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: "": must be one of privileged, baseline, restricted`,
		"warn-version=1.20":                       `metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.20": must be "latest" or "v1.x"`,
		"enforce-version=v1.020":                  `must be "latest" or "v1.x"`,
		"enforce-version=v2.0":                    `must be "latest" or "v1.x"`,
		"enforce-version=v1.-1":                   `must be "latest" or "v1.x"`,
		"enforce-version=v1.20\n":                 `must be "latest" or "v1.x"`,
		"enforce-version=v1.９":                    `must be "latest" or "v1.x"`,
		"enforce-version=v1.99999999999999999999": `must be "latest" or "v1.x"`,
	} {
		err := p.Validate(t.Context(), create(namespace("shop", label), "namespaces", ""))
		if want == "" && err != nil || want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `Namespace "shop" is invalid: `) || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("Validate(a namespace with %q) = %v, want an Invalid error of shop that ends with %q (nil if empty)", label, err, want)
		}
		if want == "" {
			continue
		}
		bad := namespace("shop", label)
		if err := p.Validate(t.Context(), update(bad, bad, "namespaces")); err != nil {
			t.Errorf("%q that has not changed: %v", label, err)
		}
		if err := p.Validate(t.Context(), update(bad, namespace("shop"), "namespaces")); !apierrors.IsInvalid(err) {
			t.Errorf("%q in an update: %v", label, err)
		}
	}
}

// TestExistingPods: a change of the standard to enforce warns about the pods that violate it.
func TestExistingPods(t *testing.T) {
	all := newCluster()
	all.pods["shop"] = []*corev1.Pod{hosted("z"), hosted("b"), hosted("c"), pod("fine"), pod("volume"), pod("port")}
	all.pods["shop"][4].Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}
	all.pods["shop"][5].Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	more := all.pods["shop"][5].DeepCopy()
	more.Name = "port-b"
	all.pods["shop"] = append(all.pods["shop"], more)
	p := all.plugin(t, podsecurity.Configuration{})
	const want = `warning: existing pods in namespace "shop" violate the new PodSecurity enforce level "baseline:latest"
warning: b (and 2 other pods): host namespaces
warning: port (and 1 other pod): hostPort
warning: volume: hostPath volumes`
	for _, c := range []struct{ was, now, want string }{
		{"", "enforce=baseline", want},
		{"enforce=baseline", "enforce=baseline warn=restricted", ""},
		{"enforce=restricted", "enforce=baseline", ""},
		{"enforce=restricted enforce-version=v1.20", "enforce=baseline", want},
		{"enforce=baseline", "enforce=privileged enforce-version=v1.1", ""},
	} {
		r := update(namespace("shop", strings.Fields(c.now)...), namespace("shop", strings.Fields(c.was)...), "namespaces")
		if got := outcome(t, p, r); got != c.want {
			t.Errorf("from %q to %q:\n%s", c.was, c.now, got)
		}
		r.Subresource = "status"
		if got := outcome(t, p, r); got != "" {
			t.Errorf("status: %s", got)
		}
	}
}

// TestManyPods: of 100,000 pods, 3,000 are looked at, those of as many controllers as possible.
func TestManyPods(t *testing.T) {
	all := newCluster()
	yes := true
	for i := range 100_000 {
		p := pod(fmt.Sprintf("p%06d", i))
		owner := i % 100
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(owner)), Controller: &yes}}
		if i >= 99_900 { // the last controller's pods, and they are last
			p.OwnerReferences[0].UID = "last"
			p.Spec.HostPID = true
		}
		all.pods["shop"] = append(all.pods["shop"], p)
	}
	p := all.plugin(t, podsecurity.Configuration{})
	got := outcome(t, p, update(namespace("shop", "enforce=baseline"), namespace("shop"), "namespaces"))
	if want := `warning: new PodSecurity enforce level only checked against the first 3000 of 100000 existing pods
warning: existing pods in namespace "shop" violate the new PodSecurity enforce level "baseline:latest"
warning: p099900: host namespaces`; got != want {
		t.Errorf("an update to enforce=baseline gives\n%s, want\n%s", got, want)
	}
}

// slowPods takes a while to find each pod.
type slowPods struct{ pods []*corev1.Pod }

func (s slowPods) Get(string) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, p := range s.pods {
			time.Sleep(300 * time.Millisecond)
			if !yield(p) {
				return
			}
		}
	}
}

// TestTime: pods are looked at for one second, or for half of what is left of the request.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := slowPods{[]*corev1.Pod{hosted("a"), hosted("b"), hosted("c"), hosted("d")}}
		p, err := podsecurity.New(podsecurity.Config{
			Namespaces: localcache.NewMap[*corev1.Namespace](), Pods: pods,
			Lookup: func(context.Context, string) (*corev1.Namespace, error) { panic("no need") },
		})
		if err != nil {
			t.Fatal(err)
		}
		for limit, want := range map[time.Duration]string{
			time.Hour:               "the first 1 of 4 existing pods",
			4 * time.Second:         "the first 1 of 4 existing pods",
			1500 * time.Millisecond: "the first 1 of 4 existing pods",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			var warnings []string
			r := update(namespace("shop", "enforce=baseline"), namespace("shop"), "namespaces")
			r.Warn = func(m string) { warnings = append(warnings, m) }
			start := time.Now()
			if err := p.Validate(ctx, r); err != nil {
				t.Error(err)
			}
			cancel()
			if !strings.Contains(strings.Join(warnings, "\n"), want) || time.Since(start) > 1300*time.Millisecond {
				t.Errorf("%v: %v after %v", limit, warnings, time.Since(start))
			}
		}
	})
}

// TestNotANamespace: other objects under the name of namespaces are bad requests.
func TestNotANamespace(t *testing.T) {
	p := newCluster().plugin(t, podsecurity.Configuration{})
	for _, r := range []*admission.Request{create(pod("a"), "namespaces", ""), update(namespace("a"), pod("a"), "namespaces")} {
		if err := p.Validate(t.Context(), r); !apierrors.IsBadRequest(err) {
			t.Errorf("Validate(%s of %T as a namespace, the old one %T) = %v, want BadRequest", r.Operation, r.Object, r.OldObject, err)
		}
	}
}
