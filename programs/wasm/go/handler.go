// Package export_wasi_http_incoming_handler is a component in Go, with wit-bindgen's bindings and Go's own
// compiler: bodies in pieces, trailers, outgoing requests.
package export_wasi_http_incoming_handler

import (
	"strings"

	. "go.bytecodealliance.org/pkg/wit/types"
	"wit_component/wasi_http_outgoing_handler"
	. "wit_component/wasi_http_types"
	"wit_component/wasi_io_streams"
)

// Handle answers a request.
func Handle(request *IncomingRequest, out *ResponseOutparam) {
	path := request.PathWithQuery().SomeOr("/")
	switch target, isQuestion := strings.CutPrefix(path, "/ask/"); {
	case path == "/echo":
		answer(out, 200, copyOf(request.Consume().Ok()))
	case path == "/trailers":
		answer(out, 200, func(stream *wasi_io_streams.OutputStream) Option[*Fields] {
			stream.BlockingWriteAndFlush([]byte("body\n"))
			checksum := Tuple2[string, []uint8]{F0: "x-checksum", F1: []byte("abc")}
			return Some(FieldsFromList([]Tuple2[string, []uint8]{checksum}).Ok())
		})
	case isQuestion:
		response := ask(target)
		answer(out, response.Status(), copyOf(response.Consume().Ok()))
	default:
		answer(out, 200, func(stream *wasi_io_streams.OutputStream) Option[*Fields] {
			stream.BlockingWriteAndFlush([]byte("hello from Go\n"))
			return None[*Fields]()
		})
	}
}

// answer sends the head of an answer, has its body written, and ends it with the trailers that come back.
func answer(out *ResponseOutparam, status uint16, write func(*wasi_io_streams.OutputStream) Option[*Fields]) {
	response := MakeOutgoingResponse(MakeFields())
	response.SetStatusCode(status)
	body := response.Body().Ok()
	ResponseOutparamSet(out, Ok[*OutgoingResponse, ErrorCode](response))
	stream := body.Write().Ok()
	trailers := write(stream)
	stream.Drop()
	OutgoingBodyFinish(body, trailers)
}

// copyOf passes a body on in pieces, and gives its trailers.
func copyOf(body *IncomingBody) func(*wasi_io_streams.OutputStream) Option[*Fields] {
	return func(stream *wasi_io_streams.OutputStream) Option[*Fields] {
		read := body.Stream().Ok()
		for {
			piece := read.BlockingRead(4096)
			if piece.IsErr() || stream.BlockingWriteAndFlush(piece.Ok()).IsErr() {
				break
			}
		}
		read.Drop()
		trailers := IncomingBodyFinish(body)
		ready := trailers.Subscribe()
		ready.Block()
		ready.Drop()
		return trailers.Get().Some().Ok().Ok()
	}
}

// ask asks another server: http/127.0.0.1:8080/path.
func ask(target string) *IncomingResponse {
	parts := strings.SplitN(target, "/", 3)
	scheme := MakeSchemeHttp()
	if parts[0] == "https" {
		scheme = MakeSchemeHttps()
	}
	request := MakeOutgoingRequest(MakeFields())
	request.SetScheme(Some(scheme))
	request.SetAuthority(Some(parts[1]))
	request.SetPathWithQuery(Some("/" + parts[2]))
	future := wasi_http_outgoing_handler.Handle(request, None[*RequestOptions]()).Ok()
	ready := future.Subscribe()
	ready.Block()
	ready.Drop()
	return future.Get().Some().Ok().Ok()
}
