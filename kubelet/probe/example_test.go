package probe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/planekit/planekit/kubelet/probe"
)

// A container is ready once its readiness probe has succeeded.
func Example() {
	asked := make(chan string, 1) // once
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.UserAgent()):
		default:
		}
	}))
	defer web.Close()
	address := netip.MustParseAddrPort(strings.TrimPrefix(web.URL, "http://"))
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "web",
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(int32(address.Port()))},
		}},
	}}}}

	changed := make(chan bool, 1)
	set := probe.NewSet(probe.Config{Prober: &probe.Client{}, Changed: func() { changed <- true }})
	defer set.Stop()
	running := []probe.Running{{Name: "web", ID: "1", StartedAt: time.Now()}}
	fmt.Println("ready:", set.Update(pod, address.Addr().String(), running)["web"].Ready)
	fmt.Println(<-asked)
	<-changed
	fmt.Println("ready:", set.Update(pod, address.Addr().String(), running)["web"].Ready)
	// Output:
	// ready: false
	// GET /ready kube-probe/1.36
	// ready: true
}
