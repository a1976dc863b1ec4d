//go:build linux

package lives_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
)

const (
	namespace = "default"
	// exitMissing is the exit code of an actor that lacks a file.
	exitMissing = 66
)

// life is the life of one pod.
type life struct {
	node *node
	plan *plan
	pods client.Resource[*corev1.Pod]
	// pod is as it was last seen.
	pod *corev1.Pod
	// begun counts the faults before the pod was created.
	begun int
	// wrong has what must not have been seen.
	wrong error
}

// live creates a pod, lets it live, deletes it, and waits until nothing is left of it.
func (n *node) live(p *plan) error {
	l := &life{node: n, plan: p, pods: typed.Pods(n.plane.Client()), begun: n.faults.total()}
	if err := l.create(); err != nil {
		return err
	}
	if p.early != 0 {
		time.Sleep(p.early) // not until an event: the pod is to be deleted in every state
	} else if err := l.spend(); err != nil {
		return err
	}
	if err := l.delete(); err != nil {
		return err
	}
	return l.wrong
}

// create creates the pod, once there is a service account for it.
func (l *life) create() error {
	return eventually(l.node.t.Context(), func() (err error) {
		l.pod, err = l.pods.Create(l.node.t.Context(), l.plan.pod)
		return err
	})
}

// spend is the part of the life before the deletion.
func (l *life) spend() error {
	switch l.plan.ending {
	case ends:
		return l.spendEnding()
	case crashes:
		if err := l.await("start a container again", func() bool {
			return slices.ContainsFunc(l.pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 })
		}); err != nil {
			return err
		}
		return l.stay()
	case deadline:
		return l.await("exceed its deadline", func() bool {
			return l.pod.Status.Phase == corev1.PodFailed && l.pod.Status.Reason == "DeadlineExceeded"
		})
	default:
		return l.spendSteady()
	}
}

// spendEnding waits until the pod has ended.
func (l *life) spendEnding() error {
	if err := l.await("end", l.finished); err != nil {
		return err
	}
	if l.node.faults.total() > l.begun {
		return nil
	}
	want := corev1.PodSucceeded
	if l.plan.fails() {
		want = corev1.PodFailed
	}
	if l.pod.Status.Phase != want || l.restarts() > 0 {
		return fmt.Errorf("without any fault it became %s, want %s: %s", l.pod.Status.Phase, want, l.describe())
	}
	return nil
}

// spendSteady waits until the pod is up, changes it, and sees its processes stay. A pod that a fault
// concerned may lose them. One that is not always started again may end if there was any fault as it
// started.
func (l *life) spendSteady() error {
	up := func() bool { return l.ready() || l.node.faults.total() > l.begun && l.ended() }
	if err := l.await("be ready", up); err != nil || !l.ready() {
		return err
	}
	if l.node.faults.total() == l.begun && l.restarts() > 0 {
		return fmt.Errorf("a container was started again without any fault: %s", l.describe())
	}
	calm := l.node.faults.total()
	before, err := l.node.processes(l.pod)
	if err != nil && !l.harmed() {
		return err
	}
	killed := ""
	switch {
	case l.harmed():
	case l.plan.kill:
		killed, err = l.killContainer(before)
	case l.plan.resize:
		err = l.resize()
	}
	if err == nil {
		err = l.stay()
	}
	if err == nil {
		err = l.compare(before, killed, calm)
	}
	if err != nil || l.pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		return err
	}
	if err := l.await("be ready at the end", l.ready); err != nil {
		return err
	}
	return l.reach()
}

// killContainer kills the process of the first container, and waits until it runs again.
func (l *life) killContainer(before map[string]process) (name string, err error) {
	name = l.pod.Spec.Containers[0].Name
	if err := syscall.Kill(before[name].pid, syscall.SIGKILL); err != nil && !l.harmed() {
		return name, fmt.Errorf("kill %s: %w", name, err)
	}
	return name, l.await("start the killed container again", func() bool { return l.ready() && l.restarts() > 0 })
}

// resize gives the first container more, and waits until the node has done it.
func (l *life) resize() error {
	name := l.pod.Spec.Containers[0].Name
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":"30m"},"limits":{"cpu":"1500m","memory":"160Mi"}}}]}}`, name)
	if _, err := l.pods.Patch(l.node.t.Context(), namespace, l.pod.Name, types.StrategicMergePatchType, []byte(patch), "resize"); err != nil {
		return fmt.Errorf("resize: %w", err)
	}
	return l.await("be resized", func() bool {
		for _, s := range l.pod.Status.ContainerStatuses {
			if s.Name == name && s.Resources != nil && s.Resources.Limits.Memory().String() == "160Mi" && s.Resources.Limits.Cpu().String() == "1500m" {
				return true
			}
		}
		return false
	})
}

// stay leaves the pod alone for as long as the plan says, and looks at it: nothing may happen to it, and no event
// says that nothing will.
func (l *life) stay() error {
	for end := time.Now().Add(l.plan.stay); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := l.look(); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the processes of the containers with those from before. It allows differences if
// a fault concerned the pod, and in the container that was killed.
func (l *life) compare(before map[string]process, killed string, calm int) error {
	if err := l.look(); err != nil {
		return err
	}
	after, err := l.node.processes(l.pod)
	if l.harmed() {
		return nil
	}
	if err != nil {
		return err
	}
	for name, was := range before {
		is := after[name]
		switch {
		case name != killed && is != was:
			err = errors.Join(err, fmt.Errorf("container %s was %v and is %v though no fault concerned it", name, was, is))
		case name == killed && is.restarts != was.restarts+1 && l.node.faults.total() == calm:
			err = errors.Join(err, fmt.Errorf("container %s was killed once and is %v, was %v", name, is, was))
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, l.describe())
	}
	return nil
}

// reach connects to the pod, and to its port on the host.
func (l *life) reach() error {
	if l.pod.Spec.HostNetwork {
		return nil
	}
	urls := []string{"http://" + net.JoinHostPort(l.pod.Status.PodIP, "8080")}
	for _, p := range l.pod.Spec.Containers[0].Ports {
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", p.HostPort))
	}
	browser := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return eventually(l.node.t.Context(), func() error {
		if err := l.look(); err != nil {
			return err
		}
		urls[0] = "http://" + net.JoinHostPort(l.pod.Status.PodIP, "8080")
		for _, url := range urls {
			response, err := browser.Get(url)
			if err != nil {
				return fmt.Errorf("the pod does not answer: %w: %s", err, l.describe())
			}
			response.Body.Close()
		}
		return nil
	})
}

// delete deletes the pod and waits until nothing is left of it.
func (l *life) delete() error {
	options := metav1.DeleteOptions{GracePeriodSeconds: l.plan.grace}
	if err := l.pods.Delete(l.node.t.Context(), namespace, l.pod.Name, options); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	err := eventually(l.node.t.Context(), func() error {
		err := l.look()
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it was deleted and is still there: "+l.describe()))
	})
	if err != nil {
		return err
	}
	if err := eventually(l.node.t.Context(), func() error { return l.node.traces(string(l.pod.UID)) }); err != nil {
		return fmt.Errorf("something is left of the pod (%s): %w", l.pod.UID, err)
	}
	return nil
}

// await waits until is reports true of the newest pod.
func (l *life) await(what string, is func() bool) error {
	return eventually(l.node.t.Context(), func() error {
		if err := l.look(); err != nil {
			return err
		}
		if !is() {
			return fmt.Errorf("it does not %s: %s", what, l.describe())
		}
		return nil
	})
}

// look reads the pod and compares it with what was seen before: counts of restarts never become
// less, a pod that has ended stays so, and no container lacks a file of its volumes.
func (l *life) look() error {
	pod, err := l.pods.Get(l.node.t.Context(), namespace, l.pod.Name)
	if err != nil {
		return err
	}
	if pod.UID != l.pod.UID {
		return fmt.Errorf("another pod has the name: %s", pod.UID)
	}
	before := counts(l.pod)
	for name, now := range counts(pod) {
		if now < before[name] {
			l.blame(fmt.Errorf("the count of restarts of %s became %d, was %d", name, now, before[name]))
		}
	}
	if l.finished() && pod.Status.Phase != l.pod.Status.Phase {
		l.blame(fmt.Errorf("it had ended as %s and became %s", l.pod.Status.Phase, pod.Status.Phase))
	}
	for _, s := range statuses(pod) {
		for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
			if end := state.Terminated; end != nil && end.ExitCode == exitMissing {
				l.blame(fmt.Errorf("container %s lacks a file: %s", s.Name, end.Message))
			}
		}
	}
	l.pod = pod
	return nil
}

// blame records the first thing that must not have been seen.
func (l *life) blame(err error) {
	if l.wrong == nil {
		l.wrong = fmt.Errorf("%w: %s", err, l.describe())
	}
}

func (l *life) harmed() bool { return l.node.faults.concerned(string(l.pod.UID)) }

func (l *life) finished() bool {
	return l.pod.Status.Phase == corev1.PodSucceeded || l.pod.Status.Phase == corev1.PodFailed
}

// ended reports whether the pod has ended, or a container of it that may not be started again.
func (l *life) ended() bool {
	ended := func(s corev1.ContainerStatus) bool { return s.State.Terminated != nil }
	return l.finished() || l.pod.Spec.RestartPolicy != corev1.RestartPolicyAlways && slices.ContainsFunc(l.pod.Status.ContainerStatuses, ended)
}

func (l *life) ready() bool {
	return slices.ContainsFunc(l.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// restarts returns the highest count of restarts.
func (l *life) restarts() (highest int32) {
	for _, n := range counts(l.pod) {
		highest = max(highest, n)
	}
	return highest
}

func (l *life) describe() string {
	var text bytes.Buffer
	text.WriteString(string(l.pod.UID) + " ")
	if err := json.NewEncoder(&text).Encode(l.pod.Status); err != nil {
		return err.Error()
	}
	return text.String()
}

// statuses returns the status of each container.
func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// counts returns the restarts of each container.
func counts(pod *corev1.Pod) map[string]int32 {
	all := map[string]int32{}
	for _, s := range statuses(pod) {
		all[s.Name] = s.RestartCount
	}
	return all
}

// eventually waits until is returns nil.
func eventually(ctx context.Context, is func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := is()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(lookEvery):
		}
	}
}
