package kubelets

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// Result holds the outcome of one pod.
type Result struct {
	// Reached is the pod in the state that its scenario waits for, and Ended what the events say
	// after it was deleted; texts in which every line has a meaning of its own.
	Reached, Ended string
	// Err says that the pod did not get there in time.
	Err error
}

const (
	namespace = "default"
	// reachIn bounds the time of a scenario. A restart after a crash takes 10 s.
	reachIn = 3 * time.Minute
	pollFor = 200 * time.Millisecond
)

// Run runs all scenarios at once on a side and returns their results, by name. A scenario that fails,
// or differs from the reference if there is one, runs once more: what happens at the same time may be
// seen in either order.
func Run(t *testing.T, bin string, side Side, scenarios []Scenario, reference map[string]Result) map[string]Result {
	t.Helper()
	admin, node := side.Server(t, bin)
	config, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // unlimited
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	side.Kubelet(t, bin, node, newHost(t))
	if err := prepare(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	results := map[string]Result{}
	playAll(t.Context(), api, scenarios, results)
	var again []Scenario
	for _, s := range scenarios {
		if r := results[s.Name]; r.Err != nil || reference != nil && r.Diff(s.Name, reference[s.Name]) != "" {
			t.Logf("%s runs again: %v\n%s", s.Name, r.Err, r.Diff(s.Name, reference[s.Name]))
			again = append(again, s)
		}
	}
	playAll(t.Context(), api, again, results)
	return results
}

// playAll runs scenarios at once and puts their results in place.
func playAll(ctx context.Context, api kubernetes.Interface, scenarios []Scenario, results map[string]Result) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, scenario := range scenarios {
		group.Go(func() {
			r := play(ctx, api, scenario)
			mu.Lock()
			defer mu.Unlock()
			results[scenario.Name] = r
		})
	}
	group.Wait()
}

// prepare makes what the scenarios share, and waits for the node.
func prepare(ctx context.Context, api kubernetes.Interface) error {
	core := api.CoreV1()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a": "alpha", "b": "beta"}}
	if _, err := core.ConfigMaps(namespace).Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		return err
	}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"token": []byte("sesame")}}
	if _, err := core.Secrets(namespace).Create(ctx, key, metav1.CreateOptions{}); err != nil {
		return err
	}
	return poll(ctx, "the node is ready", func() (bool, error) {
		if _, err := core.ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return false, nil // a controller makes it
		}
		node, err := core.Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		return err == nil && len(node.Spec.Taints) == 0, nil
	})
}

// poll calls done until it reports true or fails.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, reachIn)
	defer cancel()
	tick := time.NewTicker(pollFor)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		}
	}
}

// play runs one scenario.
func play(ctx context.Context, api kubernetes.Interface, scenario Scenario) (r Result) {
	pods := api.CoreV1().Pods(namespace)
	pod, err := scenario.pod()
	if err != nil {
		return Result{Err: err}
	}
	if err := remove(ctx, pods, scenario.Name); err != nil { // of an earlier attempt
		return Result{Err: err}
	}
	created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return Result{Err: err}
	}
	var last *corev1.Pod
	r.Err = poll(ctx, scenario.Name+" is as expected", func() (bool, error) {
		last, err = pods.Get(ctx, scenario.Name, metav1.GetOptions{})
		return err == nil && scenario.Until(last), err
	})
	if last != nil {
		r.Reached = statusText(last)
	}
	if r.Err != nil {
		return r
	}
	// Events are written after what they report.
	if r.Ended, r.Err = quiet(ctx, api, created); r.Err != nil {
		return r
	}
	if r.Err = remove(ctx, pods, scenario.Name); r.Err != nil {
		return r
	}
	r.Ended, r.Err = quiet(ctx, api, created)
	return r
}

// remove deletes a pod, if it exists, and waits until it is gone.
func remove(ctx context.Context, pods corev1client.PodInterface, name string) error {
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	return poll(ctx, name+" is gone", func() (bool, error) {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		return err != nil, nil
	})
}

// quiet waits until no new event about a pod has come for a while, and returns its events.
func quiet(ctx context.Context, api kubernetes.Interface, pod *corev1.Pod) (text string, err error) {
	same := 0
	err = poll(ctx, "no event about "+pod.Name+" comes any more", func() (bool, error) {
		now, err := eventsText(ctx, api, pod)
		if same++; now != text {
			text, same = now, 0
		}
		return same == 10, err
	})
	return text, err
}

// pod returns the scenario's pod.
func (s Scenario) pod() (*corev1.Pod, error) {
	no, grace := false, int64(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{"app": s.Name}},
		Spec:       corev1.PodSpec{HostNetwork: true, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace},
	}
	if err := yaml.UnmarshalStrict([]byte(s.Spec), &pod.Spec); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return pod, nil
}
