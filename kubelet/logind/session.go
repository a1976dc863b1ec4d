package logind

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	service = "org.freedesktop.login1"
	object  = "/org/freedesktop/login1"
	manager = "org.freedesktop.login1.Manager"
	signal  = "PrepareForShutdown"

	systemdService = "org.freedesktop.systemd1"
	systemdObject  = "/org/freedesktop/systemd1"
	systemdManager = "org.freedesktop.systemd1.Manager"

	bus = "org.freedesktop.DBus"
)

// callTimeout bounds each call over the bus, and the connection to it.
const callTimeout = 10 * time.Second

// session is a connection to logind.
type session struct {
	conn    *dbus.Conn
	signals chan *dbus.Signal
	cancel  context.CancelFunc
}

// connect connects to the bus at an address; empty means the system bus.
func connect(ctx context.Context, address string) (*session, error) {
	// The connection outlives ctx, so that inhibit can always receive its lock.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	limited, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	stop := context.AfterFunc(limited, cancel)
	options := []dbus.ConnOption{dbus.WithContext(life), dbus.WithSignalHandler(dbus.NewSequentialSignalHandler())}
	var conn *dbus.Conn
	var err error
	if address == "" {
		conn, err = dbus.ConnectSystemBus(options...)
	} else {
		conn, err = dbus.Connect(address, options...)
	}
	if !stop() && err == nil {
		conn.Close()
		err = limited.Err()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connect to the bus of logind: %w", err)
	}
	return &session{conn: conn, cancel: cancel}, nil
}

func (s *session) close() {
	s.conn.Close()
	s.cancel()
}

// call calls a method, and stores what it returns into results.
func (s *session) call(ctx context.Context, name, path, method string, args []any, results ...any) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.conn.Object(name, dbus.ObjectPath(path)).CallWithContext(limited, method, 0, args...).Store(results...)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// delay returns how long logind waits for locks.
func (s *session) delay(ctx context.Context) (time.Duration, error) {
	var value dbus.Variant
	if err := s.call(ctx, service, object, "org.freedesktop.DBus.Properties.Get", []any{manager, "InhibitDelayMaxUSec"}, &value); err != nil {
		return 0, err
	}
	micros, ok := value.Value().(uint64)
	if !ok {
		return 0, fmt.Errorf("InhibitDelayMaxUSec of logind is of type %s", value.Signature())
	}
	return time.Duration(min(micros, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond, nil
}

// reload makes logind read its configuration.
func (s *session) reload(ctx context.Context) error {
	const hangup = int32(1)
	return s.call(ctx, systemdService, systemdObject, systemdManager+".KillUnit", []any{"systemd-logind.service", "all", hangup})
}

// inhibit returns a lock that delays a shutdown until it is closed. It is not interrupted by ctx: the lock in
// an answer that is not received would never be closed. After an error, the session must be closed.
func (s *session) inhibit(ctx context.Context) (*os.File, error) {
	var lock dbus.UnixFD
	args := []any{"shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"}
	if err := s.call(context.WithoutCancel(ctx), service, object, manager+".Inhibit", args, &lock); err != nil {
		return nil, err
	}
	if f := os.NewFile(uintptr(lock), "inhibitor lock"); lock >= 0 && f != nil {
		return f, nil
	}
	return nil, errors.New("logind returned no inhibitor lock")
}

// subscribe asks for the announcements of shutdowns.
func (s *session) subscribe(ctx context.Context) error {
	s.signals = make(chan *dbus.Signal, 1)
	s.conn.Signal(s.signals)
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.conn.AddMatchSignalContext(limited, dbus.WithMatchSender(service), dbus.WithMatchObjectPath(object),
		dbus.WithMatchInterface(manager), dbus.WithMatchMember(signal))
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", signal, err)
	}
	return nil
}

// next returns whether the next announcement of logind is that a shutdown begins, or that it does not take
// place. It returns false when the session or ctx ends.
func (s *session) next(ctx context.Context) (begins, ok bool) {
	for {
		select {
		case <-ctx.Done():
			return false, false
		case m, open := <-s.signals:
			if !open {
				return false, false
			}
			if m == nil || m.Name != manager+"."+signal || m.Path != object || len(m.Body) != 1 {
				continue
			}
			// Any program on the bus can send a signal to any other.
			if begins, ok := m.Body[0].(bool); ok && s.isLogind(ctx, m.Sender) {
				return begins, true
			}
		}
	}
}

// isLogind reports whether a connection of the bus owns logind's name.
func (s *session) isLogind(ctx context.Context, sender string) bool {
	var owner string
	err := s.call(ctx, bus, "/org/freedesktop/DBus", bus+".GetNameOwner", []any{service}, &owner)
	return err == nil && owner == sender
}
