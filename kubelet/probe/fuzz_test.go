package probe

import (
	"context"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FuzzAnswers: whatever a server or a command answers, an attempt ends with a bounded output.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), int32(0))
	f.Add([]byte("HTTP/1.1 302 Found\r\nLocation: http://other.test/\r\n\r\n"), int32(1))
	f.Add([]byte("HTTP/1.1 999 \xff\r\nContent-Length: 99999999999\r\n\r\n"), int32(-1))
	f.Add([]byte("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"), int32(255))
	f.Fuzz(func(t *testing.T, answer []byte, code int32) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_ = conn.SetDeadline(time.Now().Add(time.Second))
				_, _ = conn.Read(make([]byte, 1<<10))
				_, _ = conn.Write(answer)
				_ = conn.Close()
			}
		}()
		defer func() {
			_ = listener.Close()
			<-done
		}()
		port := int32(listener.Addr().(*net.TCPAddr).Port)
		client := &Client{Exec: func(context.Context, string, []string, time.Duration) ([]byte, int32, error) {
			return answer, code, nil
		}}
		target := Target{Pod: &corev1.Pod{}, Container: &corev1.Container{Name: "web"}, ID: "id", PodIP: "127.0.0.1"}
		for _, action := range []*corev1.ProbeHandler{
			{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(port)}},
			{GRPC: &corev1.GRPCAction{Port: port}},
			{Exec: &corev1.ExecAction{Command: []string{"true"}}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			result, output, err := client.Probe(ctx, target, action)
			cancel()
			if err != nil {
				t.Errorf("an answer is no error of the node: %v", err)
			}
			if len(output) > maxOutput+1<<10+len(answer) || action.Exec != nil && (result == Success) != (code == 0) {
				t.Errorf("%v, %d bytes", result, len(output))
			}
		}
	})
}
