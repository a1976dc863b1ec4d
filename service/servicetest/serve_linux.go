package servicetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"time"
)

// patience bounds what must come. What has not come by then never does.
const patience = 30 * time.Second

// Serve answers connections or datagrams at a port of the host, in both families, until the test ends.
// A TCP connection gets the answer at once and then every line back.
func (h *Host) Serve(network string, port int) {
	h.t.Helper()
	h.Inside(func() error {
		if network == "udp" {
			c, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
			if err != nil {
				return err
			}
			h.t.Cleanup(func() { c.Close() })
			go h.answerPackets(c)
			return nil
		}
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		h.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go h.answerConnection(c)
			}
		}()
		return nil
	})
}

func (h *Host) answerConnection(c net.Conn) {
	defer c.Close()
	if _, err := io.WriteString(c, h.answer(c.RemoteAddr())); err == nil {
		_, _ = io.Copy(c, c) // until the client closes it
	}
}

func (h *Host) answerPackets(c net.PacketConn) {
	buf := make([]byte, 64)
	for {
		_, from, err := c.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = c.WriteTo([]byte(h.answer(from)), from)
		}
	}
}

func (h *Host) answer(client net.Addr) string {
	host, _, _ := net.SplitHostPort(client.String())
	a, _ := netip.ParseAddr(host)
	return h.Name + " " + a.Unmap().String() + "\n"
}

// An Answer is what a server said.
type Answer struct {
	// Server is the name of its host and Client the address that it saw.
	Server string
	Client netip.Addr
}

// Ask makes a connection, or sends a datagram, and returns the answer.
func (h *Host) Ask(network, to string) (Answer, error) { return h.AskWithin(network, to, patience) }

// AskWithin is Ask with a timeout, for what may not be answered.
func (h *Host) AskWithin(network, to string, timeout time.Duration) (Answer, error) {
	c, err := h.Dial(network, to, timeout)
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	return Question(c, network, timeout)
}

// Dial makes a connection from the host. Datagrams wait for half of a second, so that a lost one can be
// sent again.
func (h *Host) Dial(network, to string, timeout time.Duration) (c net.Conn, err error) {
	err = h.Try(func() error {
		c, err = net.DialTimeout(network, to, timeout)
		return err
	})
	return c, err
}

// Question reads the answer of a server from a connection; over UDP it asks first.
func Question(c net.Conn, network string, timeout time.Duration) (Answer, error) {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return Answer{}, err
	}
	if network == "udp" {
		if _, err := io.WriteString(c, "?"); err != nil {
			return Answer{}, err
		}
	}
	buf := make([]byte, 128)
	n, err := c.Read(buf)
	if err != nil {
		return Answer{}, err
	}
	server, client, _ := strings.Cut(strings.TrimSuffix(string(buf[:n]), "\n"), " ")
	a, err := netip.ParseAddr(client)
	return Answer{server, a}, err
}

// Run runs a program in the host and returns its output.
func (h *Host) Run(name string, args ...string) string {
	h.t.Helper()
	var out []byte
	h.Inside(func() (err error) {
		out, err = exec.Command(name, args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
		}
		return err
	})
	return string(out)
}
