package translate

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/moby/spdystream"
	"github.com/planekit/planekit/kubelet/server/internal/channel"
	corev1 "k8s.io/api/core/v1"
)

// forwardProtocol is the version of the runtime's streams of forwarded ports.
const forwardProtocol = "portforward.k8s.io"

// Forward connects a client to ports of a pod, at the runtime's address, in a subprotocol whose messages are data of one port.
// Each port has one connection. The client's connection ends when all of them have.
func (t *Translator) Forward(w http.ResponseWriter, r *http.Request, to *url.URL, p channel.Protocol, ports []int32) {
	t.connect(w, r, to, forwardProtocol, p, func(c *connection, conn *spdystream.Connection) (map[byte]io.WriteCloser, carry, error) {
		inputs, outputs := map[byte]io.WriteCloser{}, map[byte]io.Reader{}
		for i, port := range ports {
			of := func(kind string) http.Header {
				return http.Header{corev1.StreamType: {kind}, corev1.PortHeader: {strconv.Itoa(int(port))}, corev1.PortForwardRequestIDHeader: {strconv.Itoa(i)}}
			}
			problem, err := c.stream(conn, of(corev1.StreamTypeError))
			if err != nil {
				return nil, refused, err
			}
			data, err := c.stream(conn, of(corev1.StreamTypeData))
			if err != nil {
				return nil, refused, err
			}
			number := byte(2 * i)
			inputs[number], outputs[number], outputs[number+1] = data, data, problem
		}
		return inputs, func(_ context.Context, failed error) error {
			if failed != nil {
				return failed
			}
			for i, port := range ports {
				begun := binary.LittleEndian.AppendUint16(nil, uint16(port)) // it is one, as the query was read
				for _, number := range []byte{byte(2 * i), byte(2*i + 1)} {
					if err := c.write(number, begun); err != nil {
						return err
					}
				}
			}
			return c.sendAll(outputs)
		}, nil
	})
}

// refused ends a connection whose streams the runtime has not taken.
func refused(_ context.Context, failed error) error { return failed }
