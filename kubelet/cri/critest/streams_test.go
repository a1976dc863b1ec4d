package critest

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/critest/program"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// otherStreams runs commands with other streams, and changes their exit codes.
func otherStreams(streams func(*memruntime.Streams), code func(int32) int32) func(*memruntime.Config) {
	return func(c *memruntime.Config) {
		c.Exec = func(container *runtimeapi.ContainerConfig, command []string) memruntime.Program {
			return func(ctx context.Context, s memruntime.Streams) int32 {
				streams(&s)
				return code(execute(container, command)(ctx, s))
			}
		}
	}
}

// otherBehavior changes the behavior of containers.
func otherBehavior(change func(*memruntime.Behavior)) func(*memruntime.Config) {
	return func(c *memruntime.Config) {
		c.Behave = func(config *runtimeapi.ContainerConfig) memruntime.Behavior {
			b := behave(config)
			change(&b)
			return b
		}
	}
}

// TestBrokenStreams: the checks notice streams that carry something else.
func TestBrokenStreams(t *testing.T) {
	sameStreams := func(*memruntime.Streams) {}
	sameCode := func(code int32) int32 { return code }
	for _, b := range []struct {
		check, words string
		change       func(*memruntime.Config)
	}{
		{"stream a command", `"out\nerr\n", "", 7`, otherStreams(func(s *memruntime.Streams) { s.Stderr = s.Stdout }, sameCode)},
		{"stream a command", `"out\n", "err\n", 0`, otherStreams(sameStreams, func(int32) int32 { return 0 })},
		{"stream a command", "flood: 0 bytes", otherStreams(func(s *memruntime.Streams) { s.Stdout = io.Discard }, sameCode)},
		{"stream a terminal", `"out\r\n", 4`, otherStreams(sameStreams, func(int32) int32 { return 4 })},
		{"stream input", "100 bytes of", otherStreams(func(s *memruntime.Streams) { s.Stdin = io.LimitReader(s.Stdin, 100) }, sameCode)},
		{"attach", `want "hello`, otherBehavior(func(b *memruntime.Behavior) {
			b.Program = func(_ context.Context, s memruntime.Streams) int32 {
				s.Stdin.Read(make([]byte, 1))
				io.WriteString(s.Stdout, "something else\n")
				return 0
			}
		})},
		{"attach without an end of input", "want CONTAINER_RUNNING", otherBehavior(func(b *memruntime.Behavior) {
			inner := b.Program
			b.Program = func(ctx context.Context, s memruntime.Streams) int32 {
				s.Stdin = io.LimitReader(s.Stdin, int64(len("first\n")))
				return inner(ctx, s)
			}
		})},
		{"port-forward", "the port returns", otherBehavior(func(b *memruntime.Behavior) {
			b.Listen = func(uint16) func(context.Context, net.Conn) {
				return func(_ context.Context, conn net.Conn) { conn.Close() }
			}
		})},
		{"port-forward", "a port where nothing listens", otherBehavior(func(b *memruntime.Behavior) {
			b.Listen = func(port uint16) func(context.Context, net.Conn) {
				return func(_ context.Context, conn net.Conn) {
					if port == 8080 {
						program.Echo(conn)
					}
					conn.Close()
				}
			}
		})},
	} {
		t.Run(b.check+"/"+b.words, func(t *testing.T) {
			got := complaints(t, b.check, start(t, b.change))
			if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, b.words) }) {
				t.Errorf("the complaints are %q", got)
			}
		})
	}
}
