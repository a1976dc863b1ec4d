package memruntime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestWget: arguments, answers and errors, in the words of BusyBox.
func TestWget(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "hello ", r.Host)
	}))
	defer server.Close()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		switch address {
		case "web:80", "web:8080":
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		case "gone:80":
			return nil, syscall.ECONNREFUSED
		case "slow:80":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		host, _, _ := net.SplitHostPort(address)
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	for command, want := range map[string]string{
		"wget -q -O - http://web":      "hello web0",
		"/bin/wget -qO- web:8080":      "hello web:80800",
		"wget -O- -T 5 http://web/":    "hello web0",
		"wget -qT5 -O - http://web/":   "hello web0",
		"wget -O - http://web/no":      "wget: server returned error: HTTP/1.1 404 Not Found\n1",
		"wget -O - http://gone":        "wget: can't connect to remote host (gone): Connection refused\n1",
		"wget -O - http://nowhere":     "wget: bad address 'nowhere'\n1",
		"wget -O - -T 1 http://slow":   "wget: download timed out\n1",
		"wget -O - https://web":        "wget: not an http url: https://web\n1",
		"wget -O - http://[":           "wget: not an http url: http://[\n1",
		"wget http://web":              "wget: there are no files: use -O -\n1",
		"wget -O file http://web":      "wget: there are no files: use -O -\n1",
		"wget -O - -T x http://web":    "wget: invalid number 'x'\n1",
		"wget -O":                      "wget: missing URL\n1",
		"wget -":                       "wget: missing URL\n1",
		"wget":                         "wget: missing URL\n1",
		"wget -O - http://web web":     "wget: one URL at a time\n1",
		"wget --spider -O- http://web": "wget: unrecognized option: -\n1",
	} {
		var out strings.Builder
		s := memruntime.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}
		fmt.Fprint(&out, memruntime.Wget(strings.Fields(command), dial)(t.Context(), s))
		if out.String() != want {
			t.Errorf("%s: %q, want %q", command, &out, want)
		}
	}
	if memruntime.Wget(nil, dial) != nil || memruntime.Wget([]string{"curl"}, dial) != nil {
		t.Error("another command than wget")
	}
}

// TestDialPod connects to a pod from many goroutines while its container ends and the runtime stops: each
// connection is served, refused or cut, and none outlives the runtime.
func TestDialPod(t *testing.T) {
	h := start(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{Listen: func(port uint16) func(context.Context, net.Conn) {
			if port != 80 {
				return nil
			}
			return func(_ context.Context, conn net.Conn) { _, _ = io.Copy(conn, conn) }
		}}
	}})
	h.setRange("10.1.0.0/24")
	sandbox, container := h.running("web")
	at := netip.AddrPortFrom(netip.MustParseAddr(h.address(sandbox)), 80)
	echo := func() error {
		conn, err := h.runtime.DialPod(at)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("a")); err != nil {
			return err
		}
		_, err = io.ReadFull(conn, make([]byte, 1))
		return err
	}
	if err := echo(); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[netip.AddrPort]error{
		netip.AddrPortFrom(at.Addr(), 81):       syscall.ECONNREFUSED,
		netip.MustParseAddrPort("10.1.0.77:80"): syscall.EHOSTUNREACH,
	} {
		if _, err := h.runtime.DialPod(address); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", address, err, want)
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for echo() == nil {
			}
		})
	}
	if _, err := h.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: container}); err != nil {
		t.Fatal(err)
	}
	if err := echo(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a container that has ended: %v", err)
	}
	_, _ = h.running("other")
	for range 8 {
		wg.Go(func() { _ = echo() })
	}
	h.stop()
	wg.Wait()
	if err := echo(); err == nil {
		t.Error("a runtime that has stopped was reached")
	}
}
