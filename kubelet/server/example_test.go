package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
)

func Example() {
	logs, err := os.MkdirTemp("", "logs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(logs)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	certificates := httptest.NewTLSServer(nil) // in place of a cluster's authority
	s, err := server.New(server.Config{
		Listener: listener,
		TLS:      &tls.Config{Certificates: certificates.TLS.Certificates},
		Authenticate: func(r *http.Request) (string, []string, error) {
			return r.Header.Get("X-User"), nil, nil // a program verifies r.TLS.PeerCertificates
		},
		Authorize: func(_ context.Context, name string, _ []string, verb, _ string) (bool, error) {
			return name == "kube-apiserver", nil
		},
		Pods:    localcache.NewMap[*corev1.Pod](),
		Runtime: &containers{},
		LogRoot: logs,
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	client := certificates.Client()
	client.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com"
	for _, path := range []string{"/healthz", "/pods"} {
		answer, err := client.Get("https://" + listener.Addr().String() + path)
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		fmt.Printf("%s: %s %s\n", path, answer.Status, body)
	}
	certificates.Close()
	client.CloseIdleConnections()
	cancel()
	fmt.Println(<-done)
	// Output:
	// /healthz: 200 OK ok
	// /pods: 401 Unauthorized Unauthorized
	//
	// <nil>
}
