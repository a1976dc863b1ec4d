package lifecycle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// TestLongMessages: the status of a pod stays small enough to be written, whatever its containers say.
func TestLongMessages(t *testing.T) {
	const said = "zażółć gęślą jaźń " // with characters of two bytes
	for _, n := range []int{1, 3, 1000} {
		pod, state := &corev1.Pod{}, &State{Sandboxes: []Sandbox{{ID: "s", Ready: true}}}
		d := Decision{Initialized: true, Waiting: map[string]corev1.ContainerStateWaiting{}}
		for i := range n {
			name := fmt.Sprint("c", i)
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
			state.Containers = append(state.Containers, Container{
				ID: name, Name: name, Sandbox: "s", Phase: Exited, Message: strings.Repeat(said, 4096/len(said)),
			})
			d.Waiting[name] = corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: strings.Repeat(said, 32<<10/len(said))}
		}
		o := Observation{Pod: pod, State: state, Decision: d, Now: time.Unix(1, 0)}
		status := o.Status()
		text, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 1<<20 {
			t.Errorf("%d containers: the status has %d bytes", n, len(text))
		}
		terminated, waiting := 0, 0
		for _, c := range status.ContainerStatuses {
			w, e := c.State.Waiting.Message, c.LastTerminationState.Terminated.Message
			if !utf8.ValidString(w) || !utf8.ValidString(e) || !strings.HasPrefix(strings.Repeat(said, 2000), w) || w == "" || e == "" {
				t.Fatalf("%d containers: %q and %q", n, w, e)
			}
			waiting, terminated = waiting+len(w), terminated+len(e)
		}
		if n == 1 && (terminated < 4000 || waiting < 32000) {
			t.Errorf("one container keeps %d and %d bytes", terminated, waiting)
		}
		if terminated > 12<<10 || waiting > 256<<10 {
			t.Errorf("%d containers keep %d and %d bytes", n, terminated, waiting)
		}
	}
}
