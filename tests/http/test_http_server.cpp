// SPDX-License-Identifier: Apache-2.0
#include "src/http/http_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "src/base/error.h"
#include "tests/http/served.h"

namespace bascule {
namespace {

using test::Client;
using test::http_get;
using test::http_post;
using test::Served;
using test::slowly;
using test::small_settings;

TEST(HttpServer, AnswersWithFixedHeadersAndADigest) {
  Served served;
  const Client c = served.exchange(http_post("/echo", "abc"));
  EXPECT_EQ(c.received,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
            "Repr-Digest: sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:\r\n"
            "X-Model: m\r\nX-Extra: 1\r\n\r\nabc");
  EXPECT_FALSE(c.is_closed);
}

TEST(HttpServer, AnswersOneAfterAnotherOnAConnection) {
  Served served;
  Client c = served.client();
  c.send(http_post("/echo", "one") + http_get("/health") + http_post("/echo", "three"));
  ASSERT_TRUE(served.pump({&c}, [&] { return c.has("three"); }));
  EXPECT_EQ(c.count("HTTP/1.1 200"), 3u);
  EXPECT_LT(c.received.find("\r\n\r\none"), c.received.find("\r\n\r\nthree"));
  c.send("HEAD /health HTTP/1.1\r\nHost: a\r\n\r\n" + http_get("/"));
  ASSERT_TRUE(served.pump({&c}, [&] { return c.count("HTTP/1.1 200") == 5; }));
  EXPECT_FALSE(c.is_closed);
}

// Many small ones that are refused are answered without a stack of calls.
TEST(HttpServer, AnswersManyRequestsThatAreReadAtOnce) {
  Served served;
  Client c = served.client();
  std::string many;
  for (int i = 0; i < 5000; ++i) many += http_get("/x");
  for (std::string_view rest = many; !rest.empty() && !c.is_closed;) {
    rest.remove_prefix(c.send(rest));
    served.poll();
    c.receive();
  }
  ASSERT_TRUE(served.pump({&c}, [&] { return c.count("HTTP/1.1 404") == 5000; }));
}

TEST(HttpServer, HeadSendsNoBody) {
  Served served;
  const Client c = served.exchange("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(c.has("Content-Length: 50\r\n")) << c.received;
  EXPECT_EQ(c.received.find("\r\n\r\n"), c.received.size() - 4);
}

TEST(HttpServer, OldClientsAreToldThatTheConnectionStays) {
  Served served;
  const Client kept = served.exchange("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(kept.has("Connection: keep-alive\r\n"));
  EXPECT_FALSE(kept.is_closed);
  const Client closed = served.exchange("GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(closed.has("Connection: close\r\n"));
  EXPECT_TRUE(closed.is_closed);
}

struct RefusalRow {
  std::string bytes, status, also;
  bool closes;
};

TEST(HttpServer, RefusesByStatus) {
  HttpSettings settings = small_settings();
  settings.api_key = "key";
  settings.cors_allow_origin = {"http://page"};
  settings.pool_bytes = 1 << 19;  // less than a body may have
  Served served(settings);
  const std::string key = "Authorization: Bearer key\r\n", large(20000, 'a');
  const RefusalRow rows[] = {
      {http_get("/health"), "200", "", false},
      {http_get("/x"), "404", R"({"error":"no such path","error_type":"Validation"})", false},
      {http_get("/v1/x"), "404", R"({"error":{"message":"no such path","type":"Validation","param":null,"code":404}})",
       false},
      {http_post("/x", "abc"), "404", "Connection: close\r\n", true},
      {http_get("/echo"), "405", "Allow: POST\r\n", false},
      {http_post("/health", ""), "405", "Allow: GET, HEAD\r\n", false},
      {"PUT /echo HTTP/1.1\r\nHost: a\r\n\r\n", "405", "Allow: POST\r\n", false},
      {"OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n", "405", "", false},
      {"OPTIONS /echo HTTP/1.1\r\nHost: a\r\nOrigin: http://page\r\n\r\n", "204", "Allow-Origin: http://page\r\n",
       false},
      {"OPTIONS /echo HTTP/1.1\r\nHost: a\r\nOrigin: http://other\r\n\r\n", "405", "", false},
      {http_post("/echo", "abc", key + "Origin: http://page\r\n"), "200", "Vary: Origin\r\n", false},
      {http_post("/echo", "abc", key), "200", "abc", false},
      {http_post("/echo", "", "Authorization: bearer key\r\n"), "200", "", false},
      {http_post("/echo", ""), "401", "WWW-Authenticate: Bearer\r\n", false},
      {http_post("/echo", "", "Authorization: Bearer ke\r\n"), "401", "", false},
      {http_post("/echo", "", "Authorization: Bearer keys\r\n"), "401", "", false},
      {http_post("/echo", "", "Authorization: Bearer \r\n"), "401", "", false},
      {http_post("/echo", "", "Authorization: Basic key\r\n"), "401", "", false},
      {"POST /echo HTTP/1.1\r\nHost: a\r\n" + key + "\r\n", "411", "", false},
      {http_post("/echo", "abc", key + "Content-Encoding: gzip\r\n"), "415", "", true},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1073741824\r\n" + key + "\r\n", "413",
       "", true},
      {http_post("/echo", large, key), "200", large, false},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + key + "\r\n", "429", "Retry-After: 1\r\n",
       true},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 600000\r\n" + key + "\r\n", "429", "Retry-After: 1\r\n",
       true},
      {http_post("/big", "", key), "429", "full", false},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(9000, 'a'), "431", "", true},
      {"GET /" + std::string(9000, 'a'), "414", "", true},
      {http_get("/", "Expect: other\r\n"), "417", "", true},
      {"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", "501", "", true},
      {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", "505", "", true},
      {"GET / HTTP/1.1\r\n\r\n", "400", "", true},
  };
  for (const RefusalRow& row : rows) {
    const Client c = served.exchange(row.bytes);
    EXPECT_EQ(std::to_string(c.status()), row.status) << row.bytes.substr(0, 200) << "\n" << c.received.substr(0, 400);
    EXPECT_TRUE(c.has(row.also)) << row.bytes.substr(0, 200) << "\n" << c.received.substr(0, 400);
    EXPECT_EQ(c.is_closed, row.closes) << row.bytes.substr(0, 200);
    EXPECT_FALSE(c.is_reset) << row.bytes.substr(0, 200);
    EXPECT_EQ(c.count("HTTP/1.1 "), 1u);
    EXPECT_TRUE(row.status != "204" || c.received.find("\r\n\r\n") + 4 == c.received.size()) << c.received;
  }
  EXPECT_EQ(served.handler.refusals.front(), "404 /x");
  EXPECT_EQ(served.server.pool_bytes_used(), 0);
}

TEST(HttpServer, AsksForTheBodyOfAClientThatWaits) {
  Served served;
  Client c = served.client();
  c.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(served.pump({&c}, [&] { return c.has("\r\n\r\n"); }));
  EXPECT_EQ(c.received, "HTTP/1.1 100 Continue\r\n\r\n");
  c.send("abc");
  ASSERT_TRUE(served.pump({&c}, [&] { return c.has("abc"); }));
}

// 64 MiB in chunks: refused at the limit, and the answer arrives though the client still sends.
TEST(HttpServer, AnswersAClientThatSendsTooMuch) {
  Served served;
  Client c = served.client();
  c.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(65536, 'a') + "\r\n";
  std::size_t sent = 0;
  std::string_view rest = chunk;
  ASSERT_TRUE(served.pump({&c}, [&] {
    if (const std::size_t count = c.received.empty() ? c.send(rest) : 0; count > 0) {
      sent += count;
      rest.remove_prefix(count);
      if (rest.empty()) rest = chunk;
    }
    return c.is_closed;
  }));
  EXPECT_EQ(c.status(), 413);
  EXPECT_FALSE(c.is_reset);
  EXPECT_GT(sent, 1u << 20);
  EXPECT_EQ(served.server.pool_bytes_used(), 0);
}

// The time is that of the whole request: a byte now and then does not prolong it.
TEST(HttpServer, EndsSlowRequestsSlowReadersAndIdleConnections) {
  HttpSettings settings = small_settings();
  settings.request_timeout_ms = slowly(200);
  settings.idle_timeout_ms = slowly(300);
  Served served(settings);
  const std::string large = http_post("/echo", std::string(20000, 'a'));
  const std::string chunks = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
                             std::string("1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n");
  served.handler.big_bytes = 6 << 20;
  Client head = served.client(), body = served.client(), chunked = served.client(), idle = served.client();
  Client reader(served.server.address(), 4096);
  reader.send(http_post("/big", ""));
  body.send(large.substr(0, 100));
  chunked.send(chunks.substr(0, 62));
  const std::int64_t begin = monotonic_ms();
  std::size_t sent = 0;
  ASSERT_TRUE(served.pump({&head, &body, &chunked, &idle}, [&] {
    if (monotonic_ms() - begin >= static_cast<std::int64_t>(sent) * slowly(10)) {
      head.send(http_get("/", "X: " + std::string(3000, 'a')).substr(sent, 1));
      body.send("a");
      chunked.send(chunks.substr(std::min(62 + sent, chunks.size()), 1));
      ++sent;
    }
    return head.is_closed && body.is_closed && chunked.is_closed && idle.is_closed && served.server.connections() == 0;
  }));
  EXPECT_GE(monotonic_ms() - begin, slowly(300));
  for (const Client* c : {&head, &body, &chunked}) EXPECT_EQ(c->status(), 408);
  EXPECT_EQ(idle.received, "");
  EXPECT_EQ(served.server.pool_bytes_used(), 0);
}

TEST(HttpServer, TellsOfAClientThatHasGone) {
  Served served;
  Client c = served.client(), reset = served.client(), half = served.client();
  for (Client* client : {&c, &reset, &half}) client->send(http_post("/hold", std::string(20000, 'a')));
  ASSERT_TRUE(served.pump({}, [&] { return served.handler.held.size() == 3; }));
  c.socket.reset();
  reset.reset();
  ::shutdown(half.socket.number(), SHUT_WR);
  ASSERT_TRUE(served.pump({}, [&] { return served.handler.gone_tickets.size() == 3; }));
  EXPECT_EQ(served.server.connections(), 3);
  EXPECT_GT(served.server.pool_bytes_used(), 0);
  for (const HttpTicket& ticket : served.handler.held) served.server.answer(ticket, {200, "text/plain", "", "late"});
  ASSERT_TRUE(served.pump({}, [&] { return served.server.connections() == 0; }));
  EXPECT_EQ(served.server.pool_bytes_used(), 0);
  EXPECT_EQ(served.exchange(http_post("/echo", "next")).status(), 200);
}

// A client that closes its sending side behind a request that is answered at once does get the answer.
TEST(HttpServer, AnswersAtOnceBeforeItSeesTheEnd) {
  Served served;
  Client c = served.client();
  c.send(http_get("/health"));
  ::shutdown(c.socket.number(), SHUT_WR);
  ASSERT_TRUE(served.pump({&c}, [&] { return c.is_closed; }));
  EXPECT_EQ(c.status(), 200);
}

TEST(HttpServer, AnswersOfManyThreadsReachTheirClients) {
  constexpr int kThreads = 4, kClients = 32, kRounds = 15;
  Served served;
  std::mutex lock;
  std::vector<HttpTicket> queue;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (!is_over) {
        HttpTicket ticket;
        {
          const std::lock_guard<std::mutex> hold(lock);
          if (queue.empty()) continue;
          ticket = queue.back();
          queue.pop_back();
        }
        const std::string body = "slot " + std::to_string(ticket.slot) + " of " + std::to_string(ticket.generation);
        served.server.answer(ticket, {200, "text/plain", "", body});
      }
    });
  }
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<Client*> pointers;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(served.server.address()));
    pointers.push_back(clients.back().get());
  }
  for (int round = 1; round <= kRounds; ++round) {
    for (Client* c : pointers) c->send(http_post("/hold", ""));
    ASSERT_TRUE(served.pump(pointers, [&] {
      const std::lock_guard<std::mutex> hold(lock);
      queue.insert(queue.end(), served.handler.held.begin(), served.handler.held.end());
      served.handler.held.clear();
      for (const Client* c : pointers) {
        if (c->count("HTTP/1.1 200") != static_cast<std::size_t>(round)) return false;
      }
      return true;
    }));
  }
  for (const Client* c : pointers) {
    const std::string slot = c->received.substr(c->received.find("slot "), 7);
    for (int round = 1; round <= kRounds; ++round) EXPECT_TRUE(c->has(slot)) << slot;
    EXPECT_EQ(c->count(slot), static_cast<std::size_t>(kRounds));
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

// As many idle connections as there are slots, and many more that wait: the next request is answered all the same.
TEST(HttpServer, AnswersBehindTwoThousandIdleConnections) {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 3500) GTEST_SKIP() << "at most " << limit.rlim_cur << " open files";
  HttpSettings settings = small_settings();
  settings.max_connections = HttpSettings().max_connections;
  Served served(settings);
  std::vector<Descriptor> idle;
  for (int i = 0; i < 2000; ++i) {
    idle.push_back(test::connected(served.server.address()));
    if (i % 50 == 0) served.poll();
  }
  Client c = served.client();
  std::size_t sent = 0;
  EXPECT_TRUE(served.pump({&c}, [&] {
    if (sent == 0) sent = c.send(http_post("/echo", "here"));
    return c.has("here");
  }));
  EXPECT_LE(served.server.connections(), settings.max_connections);
}

TEST(HttpServer, TurnsAwayClientsWithoutADescriptor) {
  Served served;
  rlimit before = {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const Client kept = served.exchange(http_get("/health"));
  Client waiting = served.client();
  const int next = ::dup(0);  // the first number that is free
  ::close(next);
  const rlimit none = {static_cast<rlim_t>(next), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const bool is_away = served.pump({&waiting}, [&] { return waiting.is_closed; });
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(is_away);
  EXPECT_EQ(served.exchange(http_post("/echo", "again")).status(), 200);
}

TEST(HttpServer, AllocatesNothingOnceItIsMade) {
  HttpSettings settings = small_settings();
  settings.request_timeout_ms = slowly(100);
  Served served(settings);
  served.handler.keeps_names = false;
  const std::string large = http_post("/echo", std::string(100000, 'a'));
  for (int round = 0; round < 6; ++round) {
    Client c = served.client(), refused = served.client(), gone = served.client(), slow = served.client();
    c.send(http_post("/echo", "a") + http_get("/x") + large);
    refused.send("G@T\r\n\r\n");
    gone.send(http_post("/hold", "a"));
    slow.send("GET");
    ASSERT_TRUE(served.pump({&c, &refused}, [&] { return c.received.size() > 100000 && refused.is_closed; }));
    gone.reset();
    ASSERT_TRUE(served.pump({&slow}, [&] { return !served.handler.gone_tickets.empty() && slow.is_closed; }));
    served.server.answer(served.handler.gone_tickets.back(), {503, "", "", ""});
    served.handler.gone_tickets.clear();
  }
  EXPECT_EQ(served.allocated, 0);
}

TEST(HttpServer, ItsMemoryIsWhatItSays) {
  const HttpSettings settings = small_settings();
  const std::size_t bytes = HttpServer::memory_bytes(settings);
  EXPECT_GT(bytes, (8u << 20) + 64 * 20480);
  EXPECT_LT(bytes, (8u << 20) + 64 * 22000);
}

TEST(HttpServer, DrainServesWhatIsConnectedAndEnds) {
  Served served;
  const std::string address = served.server.address();
  Client idle = served.client(), busy = served.client(), next = served.client(), late(address);
  busy.send(http_post("/hold", ""));
  ASSERT_TRUE(served.pump({}, [&] { return served.handler.held.size() == 1; }));
  EXPECT_EQ(served.exchange(http_get("/health")).status(), 200);
  served.server.drain();
  Client refused(address);
  ASSERT_TRUE(served.pump({&refused}, [&] { return refused.is_closed; }));
  EXPECT_EQ(refused.received, "");
  next.send(http_post("/echo", "one more"));
  ASSERT_TRUE(served.pump({&next, &idle}, [&] { return next.is_closed && idle.is_closed; }));
  EXPECT_TRUE(next.has("Connection: close\r\n"));
  EXPECT_TRUE(next.has("one more"));
  EXPECT_FALSE(served.server.is_drained());
  served.server.answer(served.handler.held[0], {200, "text/plain", "", "finished"});
  ASSERT_TRUE(served.pump({&busy}, [&] { return served.server.is_drained(); }));
  EXPECT_TRUE(busy.has("Connection: close\r\n"));
  EXPECT_TRUE(busy.has("finished"));
}

TEST(HttpServer, DrainEndsAtItsTimeoutOnceTicketsAreAnswered) {
  HttpSettings settings = small_settings();
  settings.drain_timeout_ms = slowly(100);
  settings.request_timeout_ms = 60'000;
  Served served(settings);
  Client slow = served.client(), busy = served.client(), late = served.client(), half = served.client();
  slow.send("POST /echo HTTP/1.1\r\n");
  busy.send(http_post("/hold", ""));
  ASSERT_TRUE(served.pump({}, [&] { return served.handler.held.size() == 1; }));
  served.server.drain();
  late.send(http_post("/hold", ""));
  half.send("POST /echo HTTP/1.1\r\n");
  ASSERT_TRUE(served.pump({&slow, &busy, &late, &half},
                          [&] { return slow.is_closed && busy.is_closed && late.is_closed && half.is_closed; }));
  ASSERT_EQ(served.handler.gone_tickets.size(), 2u);
  for (int i = 0; i < 3; ++i) served.server.poll(0);
  EXPECT_FALSE(served.server.is_drained());
  for (const HttpTicket& ticket : served.handler.held)
    served.server.answer(ticket, {503, "text/plain", "", "too late"});
  ASSERT_TRUE(served.pump({&busy}, [&] { return served.server.is_drained(); }));
  EXPECT_FALSE(busy.has("too late") || late.has("too late"));
}

}  // namespace
}  // namespace bascule
