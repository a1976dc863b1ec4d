package kubelets

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// StreamCase is one use of the streams of a pod: exec, attach, port-forward or a followed log.
type StreamCase struct {
	// Name is a path, which begins with the subresource.
	Name string
	// run says what happens. An error means that the case could not be run.
	run func(*streamRun) error
}

const (
	// soon bounds the time of what is expected to happen.
	soon = 20 * time.Second
	// shortly is the time after which what is not expected to happen has not happened.
	shortly = 2 * time.Second
	// caseIn bounds the time of a case.
	caseIn = 3 * time.Minute
	// together limits the cases that run at once.
	together = 8
)

// streamRun is a run of a case.
type streamRun struct {
	ctx    context.Context
	name   string // a name for a pod of the case
	config *rest.Config
	api    kubernetes.Interface

	mu     sync.Mutex
	text   strings.Builder
	hidden []string // pairs of what differs between two runs, and what stands for it
}

// StreamCases returns all cases.
func StreamCases() []StreamCase {
	return slices.Concat(execCases(), refusedCases(), rawCases(), attachCases(), endCases(), forwardCases(), tunnelCases(), logCases())
}

// RunStreams runs the cases on a side and returns their texts, by name. A case that cannot be run, or
// differs from the reference if there is one, runs once more.
func RunStreams(t *testing.T, bin string, side StreamSide, cases []StreamCase, reference map[string]string) map[string]string {
	t.Helper()
	config := side(t, bin)
	config.QPS = -1 // unlimited
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := prepare(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	if err := makeShared(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	results := map[string]string{}
	playStreams(t.Context(), config, api, cases, results)
	var again []StreamCase
	for _, c := range cases {
		if reference != nil && DiffStreams(c.Name, reference[c.Name], results[c.Name]) != "" || strings.Contains(results[c.Name], NotRun) {
			t.Logf("%s runs again: it is\n%s", c.Name, results[c.Name])
			again = append(again, c)
		}
	}
	playStreams(t.Context(), config, api, again, results)
	return results
}

// NotRun begins the last line of a case that could not be run.
const NotRun = "not run: "

// playStreams runs cases, some at once, and puts their texts in place.
func playStreams(ctx context.Context, config *rest.Config, api kubernetes.Interface, cases []StreamCase, results map[string]string) {
	var mu sync.Mutex
	var group sync.WaitGroup
	places := make(chan struct{}, together)
	for _, c := range cases {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			text := playStream(ctx, config, api, c)
			mu.Lock()
			defer mu.Unlock()
			results[c.Name] = text
		})
	}
	group.Wait()
}

// playStream runs a case and returns its text. Nothing of its pod is left.
func playStream(ctx context.Context, config *rest.Config, api kubernetes.Interface, c StreamCase) string {
	ctx, cancel := context.WithTimeout(ctx, caseIn)
	defer cancel()
	r := &streamRun{ctx: ctx, name: strings.ReplaceAll(c.Name, "/", "-"), config: config, api: api}
	err := remove(ctx, api.CoreV1().Pods(namespace), r.name) // of an earlier attempt
	if err == nil {
		err = c.run(r)
	}
	if err != nil {
		r.say("%s%v", NotRun, err)
	}
	if err := r.clear(); err != nil {
		r.say("%s%v", NotRun, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return streamText(strings.NewReplacer(r.hidden...).Replace(r.text.String()))
}

// clear removes the pod of the case and its processes.
func (r *streamRun) clear() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), time.Minute)
	defer cancel()
	r.kill()
	pods := r.api.CoreV1().Pods(namespace)
	if err := pods.Delete(ctx, r.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// say adds a line to the text of the case.
func (r *streamRun) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.text, format+"\n", args...)
}

// hide makes name stand for a value that differs between two runs.
func (r *streamRun) hide(value, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden = append(r.hidden, value, "{"+name+"}")
}

// within says whether a condition holds soon.
func (r *streamRun) within(what string, holds func() bool) bool {
	return r.withinTime(soon, what, holds)
}

func (r *streamRun) withinTime(limit time.Duration, what string, holds func() bool) bool {
	ok := r.await(limit, holds)
	r.say("%s: %v", what, ok)
	return ok
}

// await reports whether a condition holds within a time.
func (r *streamRun) await(limit time.Duration, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if holds() {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// pod creates the pod of the case and waits until a condition holds.
func (r *streamRun) pod(spec string, until func(*corev1.Pod) bool) error {
	pod, err := Scenario{Name: r.name, Spec: spec}.pod()
	if err != nil {
		return err
	}
	return makePod(r.ctx, r.api, pod, until)
}

func makePod(ctx context.Context, api kubernetes.Interface, pod *corev1.Pod, until func(*corev1.Pod) bool) error {
	pods := api.CoreV1().Pods(namespace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	var last string
	err := poll(ctx, pod.Name+" is as expected", func() (bool, error) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		text, err := yaml.Marshal(now.Status)
		last = string(text)
		return until(now), err
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, last)
	}
	return nil
}

// sharedSpecs are pods that many cases use. None of them changes.
var sharedSpecs = map[string]struct {
	spec  string
	until func(*corev1.Pod) bool
}{
	"shell-0": {"containers: [{name: c, image: busybox, command: [sleep, '100000']}]", running},
	"shell-1": {"containers: [{name: c, image: busybox, command: [sleep, '100000']}]", running},
	"shell-2": {"containers: [{name: c, image: busybox, command: [sleep, '100000']}]", running},
	"shell-3": {"containers: [{name: c, image: busybox, command: [sleep, '100000']}]", running},
	"two":     {"containers: [{name: a, image: busybox, command: [sleep, '100000']}, {name: b, image: busybox, command: [sleep, '100000']}]", running},
	"done":    {"restartPolicy: Never\ncontainers: [{name: c, image: busybox, command: [echo, done]}]", ended},
	"half":    {"restartPolicy: Never\ncontainers: [{name: c, image: busybox, command: [sleep, '100000']}, {name: over, image: busybox, command: [echo, over]}]", half},
	"unready": {"containers: [{name: c, image: 'busybox:none'}]", waiting("ImagePullBackOff")},
}

// half reports whether the second container has ended, and the first one runs.
func half(pod *corev1.Pod) bool {
	all := pod.Status.ContainerStatuses
	return len(all) == 2 && all[0].State.Running != nil && all[1].State.Terminated != nil
}

func makeShared(ctx context.Context, api kubernetes.Interface) error {
	failed := make(chan error, len(sharedSpecs))
	for name, shared := range sharedSpecs {
		go func() {
			pod, err := Scenario{Name: name, Spec: shared.spec}.pod()
			if err == nil {
				err = makePod(ctx, api, pod, shared.until)
			}
			failed <- err
		}()
	}
	for range sharedSpecs {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

// shell returns the shared pod of a case, so that cases are spread over all of them.
func (r *streamRun) shell() string {
	sum := sha256.Sum256([]byte(r.name))
	return "shell-" + strconv.Itoa(int(sum[0]%4))
}

// marked returns a shell's command whose process has the name of the case as an argument.
func (r *streamRun) marked(script string) []string { return []string{"sh", "-c", script, r.name} }

// processes returns the processes on this machine that have the name of the case as an argument.
func (r *streamRun) processes() (ids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process may have ended meanwhile.
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if slices.Contains(strings.Split(string(line), "\x00"), r.name) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *streamRun) lives() bool { return len(r.processes()) > 0 }
func (r *streamRun) ended() bool { return !r.lives() }

// kill kills the processes of the case.
func (r *streamRun) kill() {
	for _, id := range r.processes() {
		if p, err := os.FindProcess(id); err == nil {
			_ = p.Kill() // it may have ended
		}
	}
}

// log returns the log of a container of the case's pod.
func (r *streamRun) log() string {
	data, err := r.api.CoreV1().Pods(namespace).GetLogs(r.name, &corev1.PodLogOptions{}).DoRaw(r.ctx)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// logHas returns a condition: the log of the case's pod contains a text.
func (r *streamRun) logHas(text string) func() bool {
	return func() bool { return strings.Contains(r.log(), text) }
}

// delete deletes the case's pod with a grace period.
func (r *streamRun) delete(grace int64) error {
	return r.api.CoreV1().Pods(namespace).Delete(r.ctx, r.name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
}

// streamVolatile are the parts of texts that differ between two runs of one side.
var streamVolatile = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`192\.0\.2\.1:[0-9]+`), "{kubelet}"},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+`), "{address}"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "{id}"},
	{regexp.MustCompile(`image can't be pulled|trying and failing to pull image`), "{pull}"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "{uid}"},
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+\.[0-9]+Z `), "{time} "},
	{regexp.MustCompile(`/dev/pts/[0-9]+`), "/dev/pts/{n}"},
}

func streamText(text string) string {
	for _, v := range streamVolatile {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}

// brief returns data in quotes, or its length and sum if it is long.
func brief(data []byte) string {
	if len(data) > 400 {
		sum := sha256.Sum256(data)
		return fmt.Sprintf("%d bytes, %x", len(data), sum[:4])
	}
	return strconv.Quote(string(data))
}
