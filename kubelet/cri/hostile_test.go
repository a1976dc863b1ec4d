package cri_test

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri"
)

// rawCodec passes bytes through.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (rawCodec) Name() string { return "proto" }

// hostile serves answers until the test ends: answer returns the bytes of each but that of Version.
func hostile(t *testing.T, timeout time.Duration, answer func(stream grpc.ServerStream) ([]byte, error)) *cri.Client {
	t.Helper()
	path := socket(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var in, out []byte
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		if method, _ := grpc.Method(stream.Context()); !strings.HasSuffix(method, "/Version") {
			var err error
			if out, err = answer(stream); err != nil {
				return err
			}
		}
		return stream.SendMsg(&out)
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	c, err := cri.Dial(t.Context(), path, cri.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestHostile: answers that are no messages, too large or never there are errors that name the call.
func TestHostile(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(grpc.ServerStream) ([]byte, error)
		want   codes.Code
	}{
		"empty":   {func(grpc.ServerStream) ([]byte, error) { return nil, nil }, codes.OK},
		"garbage": {func(grpc.ServerStream) ([]byte, error) { return []byte("\xff\xff\xff"), nil }, codes.Internal},
		"invalid UTF-8": {func(grpc.ServerStream) ([]byte, error) {
			container := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "\xff")
			return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), container), nil
		}, codes.Internal},
		"unknown state": {func(grpc.ServerStream) ([]byte, error) {
			container := protowire.AppendVarint(protowire.AppendTag(nil, 6, protowire.VarintType), 99)
			return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), container), nil
		}, codes.OK},
		"huge": {func(grpc.ServerStream) ([]byte, error) { return bytes.Repeat([]byte{0}, 17<<20), nil }, codes.ResourceExhausted},
		"long error": {func(grpc.ServerStream) ([]byte, error) {
			return nil, status.Error(codes.Aborted, strings.Repeat("ö\xff", 1<<16))
		}, codes.Aborted},
		"silence": {func(stream grpc.ServerStream) ([]byte, error) {
			<-stream.Context().Done()
			return nil, stream.Context().Err()
		}, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := time.Minute
			if test.want == codes.DeadlineExceeded {
				timeout = time.Second
			}
			c := hostile(t, timeout, test.answer)
			for range 2 { // the connection is of use after an error
				_, err := c.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
				if status.Code(err) != test.want {
					t.Errorf("%.200v, want the code %v", err, test.want)
				}
				if err == nil {
					continue
				}
				if text := status.Convert(err).Message(); !strings.HasPrefix(text, "ListContainers: ") || len(text) > 40<<10 || !utf8.ValidString(text) {
					t.Errorf("%d bytes: %.200q", len(text), text)
				}
			}
		})
	}
}
