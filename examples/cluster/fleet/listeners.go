package fleet

import (
	"errors"
	"net"
	"sync"
)

// listeners accepts the connections of several listeners as one. Its address is that of the first.
type listeners struct {
	net.Listener
	all      []net.Listener
	accepted chan accepted
	closed   chan struct{}
	once     sync.Once
}

// accepted holds the results of Accept.
type accepted struct {
	connection net.Conn
	err        error
}

// joinListeners returns a listener that accepts what first and others accept. It closes them.
func joinListeners(first net.Listener, others ...net.Listener) net.Listener {
	l := &listeners{Listener: first, all: append([]net.Listener{first}, others...), accepted: make(chan accepted), closed: make(chan struct{})}
	for _, one := range l.all {
		go l.accept(one) // ends when it is closed
	}
	return l
}

func (l *listeners) accept(one net.Listener) {
	for {
		connection, err := one.Accept()
		select {
		case l.accepted <- accepted{connection, err}:
		case <-l.closed:
			if err == nil {
				connection.Close()
			}
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// Accept returns the next connection of any listener.
func (l *listeners) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.connection, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close closes all listeners.
func (l *listeners) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		for _, one := range l.all {
			err = errors.Join(err, one.Close())
		}
	})
	return err
}
