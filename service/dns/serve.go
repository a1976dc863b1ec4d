package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

// Times of connections.
const (
	// writeTimeout ends a connection that does not take an answer.
	writeTimeout = 2 * time.Second
	// connectionTimeout ends every connection.
	connectionTimeout = time.Minute
	// retryDelay is the time after a socket failed for a reason that may pass.
	retryDelay = 10 * time.Millisecond
	// maxFailures is how often in a row that may happen.
	maxFailures = 100
)

// servePackets answers the packets of a socket until it is closed.
func (s *Server) servePackets(ctx context.Context, conn net.PacketConn, stop func(error)) {
	var running sync.WaitGroup
	defer running.Wait()
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			buffer := make([]byte, 1<<16)
			failures := 0
			for {
				n, from, err := conn.ReadFrom(buffer)
				if err != nil {
					if failures++; !s.goesOn(ctx, err, failures) {
						stop(fmt.Errorf("read %v: %w", conn.LocalAddr(), err))
						return
					}
					continue
				}
				failures = 0
				s.servePacket(ctx, conn, buffer[:n], from, &running)
			}
		})
	}
}

// goesOn waits after a failure of a socket, and reports whether to try again.
func (s *Server) goesOn(ctx context.Context, err error, failures int) bool {
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) || failures > maxFailures {
		return false
	}
	s.Log.V(1).Info("a socket failed", "error", err.Error())
	wait := time.NewTimer(retryDelay)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wait.C:
		return true
	}
}

// servePacket answers one packet. Questions that wait for upstreams have goroutines of their own.
func (s *Server) servePacket(ctx context.Context, conn net.PacketConn, packet []byte, from net.Addr, running *sync.WaitGroup) {
	if !s.mayAsk(addressOf(from)) {
		return
	}
	r := s.respond(packet, addressOf(from), false)
	if r.wait == nil {
		if r.packet != nil {
			conn.WriteTo(r.packet, from) // the client asks again if it is lost
		}
		return
	}
	select {
	case s.forwards <- struct{}{}:
	default:
		s.Meters.rejected()
		if r := r.reject(); r != nil {
			conn.WriteTo(r, from)
		}
		return
	}
	running.Go(func() {
		defer func() { <-s.forwards }()
		if packet := r.wait(ctx); packet != nil {
			conn.WriteTo(packet, from)
		}
	})
}

// serveConnections accepts connections until the listener is closed, and waits for their ends.
func (s *Server) serveConnections(ctx context.Context, l net.Listener, stop func(error)) {
	var running sync.WaitGroup
	defer running.Wait()
	failures := 0
	for {
		conn, err := l.Accept()
		if err != nil {
			if failures++; !s.goesOn(ctx, err, failures) {
				stop(fmt.Errorf("accept %v: %w", l.Addr(), err))
				return
			}
			continue
		}
		failures = 0
		if !s.mayAsk(addressOf(conn.RemoteAddr())) {
			conn.Close()
			continue
		}
		select {
		case s.connections <- struct{}{}:
		default:
			s.Meters.refused()
			conn.Close()
			continue
		}
		running.Go(func() {
			defer func() { <-s.connections }()
			ctx, cancel := context.WithTimeout(ctx, connectionTimeout)
			defer cancel()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			defer conn.Close()
			s.serveConnection(ctx, conn)
		})
	}
}

// serveConnection answers the questions of a connection, one after the other.
func (s *Server) serveConnection(ctx context.Context, conn net.Conn) {
	from := addressOf(conn.RemoteAddr())
	var length [2]byte
	for ctx.Err() == nil {
		conn.SetReadDeadline(time.Now().Add(s.IdleTimeout))
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, packet); err != nil {
			return
		}
		answer := s.answerConnection(ctx, packet, from)
		if answer == nil {
			return
		}
		conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func (s *Server) answerConnection(ctx context.Context, packet []byte, from netip.Addr) []byte {
	r := s.respond(packet, from, true)
	if r.wait == nil {
		return r.packet
	}
	select {
	case s.forwards <- struct{}{}:
		defer func() { <-s.forwards }()
		return r.wait(ctx)
	default:
		s.Meters.rejected()
		return r.reject()
	}
}

// mayAsk reports whether a client gets answers.
func (s *Server) mayAsk(client netip.Addr) bool { return s.Clients == nil || s.Clients(client.Unmap()) }

// addressOf returns the address of a client; zero if it has none.
func addressOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.UDPAddr:
		return a.AddrPort().Addr()
	case *net.TCPAddr:
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}
