// Package wire is an HTTP/2 client of minimal cost: one connection, one request at a time, bodies
// as bytes. It loads both sides of a comparison, so that the measurement is of the server.
package wire

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These are the flow control windows of Go's own client, which stock clients use.
const (
	connectionWindow = 1 << 30
	streamWindow     = 4 << 20
)

// Target is a server and the credentials for it.
type Target struct {
	// URL is the URL of the server, such as "https://127.0.0.1:6443".
	URL, Token string
}

// Request is one request with its body.
type Request struct {
	Method, Path, Accept string
	ContentType          string
	Body                 []byte
	// Gzip requests a compressed answer, as Go's own client does. The body is returned as received.
	Gzip bool
}

// Conn is one connection. It must not be used by two goroutines at once.
type Conn struct {
	target string
	token  string
	conn   *tls.Conn
	out    *bufio.Writer
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	next   uint32
	// These count bytes received since the last window update.
	connectionDebt, streamDebt uint32
}

// Dial connects. It does not verify the server's certificate, because the server signs its own at
// each start.
func Dial(t Target) (*Conn, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	conn, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	c := &Conn{target: u.Host, token: t.Token, conn: conn, out: bufio.NewWriter(conn), next: 1}
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(conn, 64<<10))
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.hpack = hpack.NewEncoder(&c.block)
	if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	err = errors.Join(
		c.framer.WriteSettings(
			http2.Setting{ID: http2.SettingEnablePush, Val: 0},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		),
		c.framer.WriteWindowUpdate(0, connectionWindow),
		c.out.Flush(),
	)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// Close closes the connection and ends any answer on it.
func (c *Conn) Close() error { return c.conn.NetConn().Close() }

// Do sends q and returns the body of the answer, which may use buffer. An answer that is not a
// success is an error.
func (c *Conn) Do(q Request, buffer []byte) ([]byte, error) {
	if err := c.Send(q); err != nil {
		return nil, err
	}
	body := buffer[:0]
	status, err := c.Receive(func(data []byte) error {
		body = append(body, data...)
		return nil
	})
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s %s: %d %s", q.Method, q.Path, status, reason(body))
	}
	return body, err
}

// reason returns the message of a Status, or the beginning of anything else.
func reason(body []byte) string {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return fmt.Sprintf("%q", body[:min(len(body), 300)])
}

// Send sends q without waiting for the answer.
func (c *Conn) Send(q Request) error {
	c.block.Reset()
	field := func(name, value string) {
		if value != "" {
			_ = c.hpack.WriteField(hpack.HeaderField{Name: name, Value: value}) // to memory
		}
	}
	field(":method", q.Method)
	field(":scheme", "https")
	field(":authority", c.target)
	field(":path", q.Path)
	field("accept", q.Accept)
	if q.Gzip {
		field("accept-encoding", "gzip")
	}
	field("user-agent", "planekit-bench")
	field("authorization", "Bearer "+c.token)
	field("content-type", q.ContentType)
	if q.Body != nil {
		field("content-length", strconv.Itoa(len(q.Body)))
	}
	stream := c.next
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: c.block.Bytes(), EndStream: q.Body == nil, EndHeaders: true,
	})
	if err == nil && q.Body != nil {
		err = c.framer.WriteData(stream, true, q.Body)
	}
	if err != nil {
		return err
	}
	return c.out.Flush()
}

// Receive passes the body of the answer to sink as it arrives, and returns the HTTP status once it
// has ended.
func (c *Conn) Receive(sink func([]byte) error) (status int, err error) {
	stream := c.next
	c.next += 2
	c.streamDebt = 0
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return status, err
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if value := f.PseudoValue("status"); value != "" {
				if status, err = strconv.Atoi(value); err != nil {
					return 0, err
				}
			}
		case *http2.DataFrame:
			if err := sink(f.Data()); err != nil {
				return status, err
			}
			if err := c.refund(stream, f.Length, f.StreamEnded()); err != nil {
				return status, err
			}
		default:
			if err := c.control(frame); err != nil {
				return status, err
			}
		}
		if header := frame.Header(); header.StreamID == stream && header.Flags.Has(http2.FlagDataEndStream) &&
			(header.Type == http2.FrameData || header.Type == http2.FrameHeaders) {
			return status, nil
		}
	}
}

// refund lets the server send as many more bytes as were received.
func (c *Conn) refund(stream, n uint32, ended bool) error {
	c.connectionDebt += n
	c.streamDebt += n
	if c.connectionDebt > connectionWindow/2 {
		if err := c.framer.WriteWindowUpdate(0, c.connectionDebt); err != nil {
			return err
		}
		c.connectionDebt = 0
	}
	if c.streamDebt > streamWindow/4 && !ended {
		if err := c.framer.WriteWindowUpdate(stream, c.streamDebt); err != nil {
			return err
		}
		c.streamDebt = 0
	}
	if c.out.Buffered() == 0 {
		return nil
	}
	return c.out.Flush()
}

// control answers the frames that do not belong to the request.
func (c *Conn) control(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		return errors.Join(c.framer.WriteSettingsAck(), c.out.Flush())
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		return errors.Join(c.framer.WritePing(true, f.Data), c.out.Flush())
	case *http2.RSTStreamFrame:
		return fmt.Errorf("the server reset the stream: %v", f.ErrCode)
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server goes away: %v %s", f.ErrCode, f.DebugData())
	}
	return nil
}
