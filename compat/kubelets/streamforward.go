package kubelets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// listen serves a port of the pods, whose network is the machine's, until the run ends. It returns
// the port.
func (r *streamRun) listen(serve func(*net.TCPConn)) (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	go func() {
		<-r.ctx.Done()
		listener.Close()
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(2 * soon))
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	r.hide(strconv.Itoa(port), "port")
	return port, nil
}

// nowhere returns a port on which nothing listens.
func (r *streamRun) nowhere() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	r.hide(strconv.Itoa(port), "port")
	return port, listener.Close()
}

func echo(conn *net.TCPConn) {
	io.Copy(conn, conn)
	conn.CloseWrite()
}

// forwarder connects to the ports of a pod. If it is refused, it says so.
func (r *streamRun) forwarder(config *rest.Config, way, pod string) (httpstream.Connection, bool) {
	to, err := url.Parse(config.Host + podPath(pod, "portforward", nil))
	if err != nil {
		r.say("%s%v", NotRun, err)
		return nil, false
	}
	var dialer httpstream.Dialer
	if way == "websocket" {
		dialer, err = portforward.NewSPDYOverWebsocketDialer(to, config)
	} else {
		var transport http.RoundTripper
		var upgrader spdy.Upgrader
		if transport, upgrader, err = spdy.RoundTripperFor(config); err == nil {
			dialer = spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
		}
	}
	if err != nil {
		r.say("%s%v", NotRun, err)
		return nil, false
	}
	conn, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		r.say("refused: %s", shown(err))
		return nil, false
	}
	r.say("protocol: %s", protocol)
	return conn, true
}

// pair is the two streams of a connection to a port.
type pair struct {
	data, problem httpstream.Stream
	r             *streamRun
	mu            sync.Mutex
	got           bytes.Buffer
	end           string
	done          chan struct{}
	failed        chan string
}

// open opens a connection to a port, and reads what comes from it.
func (r *streamRun) openPort(conn httpstream.Connection, port string, request int) (*pair, bool) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, port)
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(request))
	problem, err := conn.CreateStream(headers)
	if err != nil {
		r.say("error stream: %v", err)
		return nil, false
	}
	problem.Close()
	p := &pair{problem: problem, r: r, done: make(chan struct{}), failed: make(chan string, 1)}
	go func() {
		text, err := io.ReadAll(problem)
		p.failed <- fmt.Sprintf("%q %s", text, ending(err))
	}()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	if p.data, err = conn.CreateStream(headers); err != nil {
		r.say("data stream: %v", err)
		r.say("problem: %s", r.wait(p.failed))
		return nil, false
	}
	go func() {
		defer close(p.done)
		buffer := make([]byte, 32<<10)
		for {
			n, err := p.data.Read(buffer)
			p.mu.Lock()
			p.got.Write(buffer[:n])
			if err != nil {
				p.end = ending(err)
				p.mu.Unlock()
				return
			}
			p.mu.Unlock()
		}
	}()
	return p, true
}

// wait returns what comes soon.
func (r *streamRun) wait(from <-chan string) string {
	select {
	case text := <-from:
		return text
	case <-time.After(soon):
		return "nothing"
	}
}

// ending says how a stream has ended.
func ending(err error) string {
	if err == nil || errors.Is(err, io.EOF) {
		return "ended"
	}
	return "failed" // the words depend on which end was first
}

// sayPair waits for the end of a connection to a port and says what came.
func (r *streamRun) sayPair(p *pair) {
	select {
	case <-p.done:
	case <-time.After(soon):
	}
	p.mu.Lock()
	r.say("data: %s, %q", brief(p.got.Bytes()), p.end)
	p.mu.Unlock()
	r.say("problem: %s", r.wait(p.failed))
}

// has returns a condition: a text has come.
func (p *pair) has(text string) func() bool {
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return bytes.Contains(p.got.Bytes(), []byte(text))
	}
}

// server says what the end of a port's server sees of a connection.
func (r *streamRun) server(seen chan<- string, serve func(*net.TCPConn) string) func(*net.TCPConn) {
	return func(conn *net.TCPConn) { seen <- serve(conn) }
}

// drain reads to the end.
func drain(conn *net.TCPConn) string {
	data, err := io.ReadAll(conn)
	how := "end"
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		how = "no end"
	} else if err != nil {
		how = "reset"
	}
	return fmt.Sprintf("%s, %s", brief(data), how)
}

// forward adds a case with one connection to a server. Do gets the pair, and seen has what the server
// says.
func (l *caseList) forward(name string, serve func(*net.TCPConn) string, do func(r *streamRun, conn httpstream.Connection, p *pair)) {
	*l = append(*l, each("portforward/"+name, func(r *streamRun, way string) error {
		seen := make(chan string, 10)
		port, err := r.listen(r.server(seen, serve))
		if err != nil {
			return err
		}
		conn, ok := r.forwarder(r.config, way, r.shell())
		if !ok {
			return nil
		}
		defer conn.Close()
		p, ok := r.openPort(conn, strconv.Itoa(port), 0)
		if !ok {
			return nil
		}
		do(r, conn, p)
		r.sayPair(p)
		r.say("server: %s", r.wait(seen))
		return nil
	})...)
}

// forwardCases forward ports.
func forwardCases() []StreamCase {
	var l caseList
	forwardConnections(&l)
	l = append(l, each("portforward/one-after-the-other", forwardOneAfterTheOther)...)
	l = append(l, each("portforward/two-ports", forwardTwoPorts)...)
	for name, port := range map[string]string{"nowhere": "", "zero": "0", "too-high": "65536", "negative": "-1", "no-number": "http"} {
		l = append(l, each("portforward/port-"+name, func(r *streamRun, way string) error { return forwardPort(r, way, port) })...)
	}
	for name, pod := range map[string]string{"no-pod": "none", "ended-pod": "done", "waiting-pod": "unready"} {
		l = append(l, each("portforward/refused-"+name, func(r *streamRun, way string) error {
			if conn, ok := r.forwarder(r.config, way, pod); ok {
				if p, ok := r.openPort(conn, "80", 0); ok {
					r.sayPair(p)
				}
				conn.Close()
			}
			return nil
		})...)
	}
	return append(l, forwardEndCases()...)
}

// forwardConnections end connections in each way, and fill them.
func forwardConnections(l *caseList) {
	l.forward("half-closed-by-client", func(conn *net.TCPConn) string {
		text := drain(conn)
		io.WriteString(conn, "after")
		return text
	}, func(r *streamRun, _ httpstream.Connection, p *pair) {
		io.WriteString(p.data, "hello")
		p.data.Close()
	})
	l.forward("half-closed-by-server", func(conn *net.TCPConn) string {
		io.WriteString(conn, "hello")
		conn.CloseWrite()
		return drain(conn)
	}, func(r *streamRun, _ httpstream.Connection, p *pair) {
		<-p.done
		if _, err := io.WriteString(p.data, "after"); err != nil {
			r.say("write failed")
		}
		p.data.Close()
	})
	l.forward("closed-by-server", func(conn *net.TCPConn) string {
		io.WriteString(conn, "hello")
		return ""
	}, func(r *streamRun, _ httpstream.Connection, p *pair) { <-p.done })
	l.forward("closed-at-once", func(conn *net.TCPConn) string { return "" }, func(*streamRun, httpstream.Connection, *pair) {})
	l.forward("reset-by-server", func(conn *net.TCPConn) string {
		buffer := make([]byte, 5)
		io.ReadFull(conn, buffer)
		conn.SetLinger(0)
		return string(buffer)
	}, func(r *streamRun, _ httpstream.Connection, p *pair) { io.WriteString(p.data, "hello") })
	l.forward("reset-by-client", func(conn *net.TCPConn) string {
		io.WriteString(conn, "hello")
		return drain(conn)
	}, func(r *streamRun, _ httpstream.Connection, p *pair) {
		r.within("data", p.has("hello"))
		p.data.Reset()
	})
	l.forward("connection-closed", func(conn *net.TCPConn) string {
		io.WriteString(conn, "hello")
		return drain(conn)
	}, func(r *streamRun, conn httpstream.Connection, p *pair) {
		r.within("data", p.has("hello"))
		conn.Close()
	})
	l.forward("large", func(conn *net.TCPConn) string { echo(conn); return "" }, func(r *streamRun, _ httpstream.Connection, p *pair) {
		if _, err := p.data.Write(pattern()); err != nil {
			r.say("write failed")
		}
		p.data.Close()
	})
	l.forward("large-from-server", func(conn *net.TCPConn) string { conn.Write(pattern()); return "" }, func(*streamRun, httpstream.Connection, *pair) {})
	l.forward("large-to-server", drain, func(r *streamRun, _ httpstream.Connection, p *pair) {
		if _, err := p.data.Write(pattern()); err != nil {
			r.say("write failed")
		}
		p.data.Close()
	})
}

// forwardOneAfterTheOther opens many connections.
func forwardOneAfterTheOther(r *streamRun, way string) error {
	port, err := r.listen(echo)
	if err != nil {
		return err
	}
	conn, ok := r.forwarder(r.config, way, r.shell())
	if !ok {
		return nil
	}
	defer conn.Close()
	good := 0
	for i := range 60 {
		p, ok := r.openPort(conn, strconv.Itoa(port), i)
		if !ok {
			return nil
		}
		io.WriteString(p.data, "hello")
		p.data.Close()
		if r.await(soon, p.has("hello")) {
			good++
		}
		<-p.done
		conn.RemoveStreams(p.data, p.problem)
	}
	r.say("good: %d", good)
	return nil
}

// forwardTwoPorts forwards several ports at once, one of which leads nowhere.
func forwardTwoPorts(r *streamRun, way string) error {
	conn, ok := r.forwarder(r.config, way, r.shell())
	if !ok {
		return nil
	}
	defer conn.Close()
	var pairs []*pair
	for i := range 2 {
		port, err := r.listen(func(conn *net.TCPConn) { fmt.Fprintf(conn, "port %d ", i); echo(conn) })
		if err != nil {
			return err
		}
		p, ok := r.openPort(conn, strconv.Itoa(port), i)
		if !ok {
			return nil
		}
		pairs = append(pairs, p)
	}
	nothing, err := r.nowhere()
	if err != nil {
		return err
	}
	if p, ok := r.openPort(conn, strconv.Itoa(nothing), 2); ok {
		pairs = append(pairs, p)
	}
	for i, p := range pairs {
		fmt.Fprintf(p.data, "hello %d", i)
		p.data.Close()
	}
	for _, p := range pairs {
		r.sayPair(p)
	}
	return nil
}

// forwardPort forwards a port that may be wrong; empty leads nowhere.
func forwardPort(r *streamRun, way, port string) error {
	if port == "" {
		n, err := r.nowhere()
		if err != nil {
			return err
		}
		port = strconv.Itoa(n)
	}
	conn, ok := r.forwarder(r.config, way, r.shell())
	if !ok {
		return nil
	}
	defer conn.Close()
	if p, ok := r.openPort(conn, port, 0); ok {
		r.sayPair(p)
	}
	// Other ports are still reached by the connection.
	good, err := r.listen(echo)
	if err != nil {
		return err
	}
	if p, ok := r.openPort(conn, strconv.Itoa(good), 1); ok {
		io.WriteString(p.data, "hello")
		p.data.Close()
		r.sayPair(p)
	}
	return nil
}

// forwardEndCases end one end of a port-forward while it is in use.
func forwardEndCases() (cases []StreamCase) {
	cases = each("portforward/cut", forwardCut)
	for _, how := range []string{"killed", "deleted-at-once", "deleted"} {
		cases = append(cases, each("portforward/container-"+how, func(r *streamRun, way string) error {
			port, err := r.nowhere()
			if err != nil {
				return err
			}
			script := fmt.Sprintf("nc -ll -p %d -e sh -c 'echo hello; cat' %s", port, r.name)
			if err := r.pod(r.attachable(script, ""), running); err != nil {
				return err
			}
			conn, ok := r.forwarder(r.config, way, r.name)
			if !ok {
				return nil
			}
			defer conn.Close()
			var p *pair
			// The server may not listen yet.
			if !r.await(soon, func() bool {
				if p, ok = r.openPort(conn, strconv.Itoa(port), int(time.Now().UnixNano()%1e9)); !ok {
					return false
				}
				return r.await(time.Second, p.has("hello"))
			}) {
				return errors.New("the server does not listen")
			}
			switch how {
			case "killed":
				r.kill()
			case "deleted-at-once":
				err = r.delete(0)
			default:
				err = r.delete(1)
			}
			if err != nil {
				return err
			}
			r.sayPair(p)
			// Whether the connection itself has ended.
			r.withinTime(shortly, "the client's connection has ended", func() bool {
				select {
				case <-conn.CloseChan():
					return true
				default:
					return false
				}
			})
			if p, ok := r.openPort(conn, strconv.Itoa(port), 1); ok {
				r.sayPair(p)
			}
			return nil
		})...)
	}
	return cases
}

// forwardCut cuts the client's connection.
func forwardCut(r *streamRun, way string) error {
	seen := make(chan string, 1)
	port, err := r.listen(r.server(seen, func(conn *net.TCPConn) string {
		io.WriteString(conn, "hello")
		return drain(conn)
	}))
	if err != nil {
		return err
	}
	config, cutter, err := r.cutter()
	if err != nil {
		return err
	}
	defer cutter.cut()
	conn, ok := r.forwarder(config, way, r.shell())
	if !ok {
		return nil
	}
	defer conn.Close()
	p, ok := r.openPort(conn, strconv.Itoa(port), 0)
	if !ok {
		return nil
	}
	r.within("data", p.has("hello"))
	cutter.cut()
	r.say("server: %s", r.wait(seen))
	r.sayPair(p)
	return nil
}
