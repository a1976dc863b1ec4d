package events_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func Example() {
	received := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received <- r.Method + " " + r.URL.Path
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	recorder, err := events.New(events.Config{Client: c, Component: "scheduler"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- recorder.Run(ctx) }()

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
	recorder.Event(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned default/web to a")
	fmt.Println(<-received)
	cancel()
	fmt.Println(<-done)
	// Output:
	// POST /api/v1/namespaces/default/events
	// <nil>
}
